// What is made from the declared list: docs/config.md, the JSON Schema, explanations.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "config/keys.h"
#include "config/parse.h"

namespace lockstep::config {
namespace {

using testing::HasSubstr;

TEST(Reference, DocsAreCurrent) {
  std::ifstream file(LOCKSTEP_SOURCE "/docs/config.md");
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_TRUE(text.str() == config_reference()) << "run: lockstep config schema --markdown > docs/config.md";
}

TEST(Reference, SchemaHasEveryKey) {
  const auto schema = nlohmann::json::parse(config_schema());
  Config blank;
  const KeyList keys = KeyList::of(blank);
  for (const Key& key : keys.keys()) {
    const nlohmann::json* at = &schema;
    std::stringstream path(key.path);
    for (std::string name; std::getline(path, name, '.');) at = &at->at("properties").at(name);
    EXPECT_TRUE(at->contains("description")) << key.path;
  }
  EXPECT_EQ(schema["properties"]["fp16"]["additionalProperties"], false);
  EXPECT_EQ(schema["properties"]["zero_optimization"]["properties"]["stage"]["maximum"], 3);
}

TEST(Reference, ExplainsAKeyByItsPathOrItsLastWord) {
  EXPECT_THAT(explain_config_key("zero_optimization.stage"), HasSubstr("range    from 0 to 3"));
  EXPECT_THAT(explain_config_key("stage"), HasSubstr("zero_optimization.stage"));
  EXPECT_THAT(explain_config_key("lr"), HasSubstr("Adagrad 0.01"));
  EXPECT_THAT(explain_config_key("hysteresis"), HasSubstr("default  2"));
  EXPECT_THAT(explain_config_key("fp16"), HasSubstr("initial_scale_power"));
  EXPECT_THAT(explain_config_key("prefetch_bucket_size"), HasSubstr("stage3_prefetch_bucket_size"));
  try {
    (void)explain_config_key("gradient_cliping");
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("write \"gradient_clipping\""));
  }
}

TEST(Reference, EveryKeyCanBeExplained) {
  Config blank;
  const KeyList keys = KeyList::of(blank);
  for (const Key& key : keys.keys()) EXPECT_THAT(explain_config_key(key.path), HasSubstr(key.about.meaning));
}

}  // namespace
}  // namespace lockstep::config
