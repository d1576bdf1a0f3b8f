// The value "auto": resolved from a documented source while reading, or refused while reading.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/keys.h"
#include "config/parse.h"

namespace lockstep::config {
namespace {

using testing::HasSubstr;

/// A config that has "auto" at the path, and types for its params.
std::string with_auto(const std::string& path, const std::string& type) {
  std::string inner = "\"auto\"";
  std::string rest = path;
  while (!rest.empty()) {
    const size_t dot = rest.rfind('.');
    const std::string name = dot == std::string::npos ? rest : rest.substr(dot + 1);
    rest = dot == std::string::npos ? "" : rest.substr(0, dot);
    inner = "{\"" + name + "\": " + inner;
    if (rest == "optimizer" || rest == "scheduler") {
      inner += "}";
      inner = "{\"type\": \"" + type + "\", " + inner.substr(1);
    } else {
      inner += "}";
    }
  }
  return inner;
}

TEST(Automatic, EveryKeyIsResolvedOrRefusedWhileReading) {
  Config blank;
  const KeyList keys = KeyList::of(blank);
  int resolved = 0;
  int refused = 0;
  for (const Key& key : keys.keys()) {
    std::string type = key.path.starts_with("scheduler") ? "WarmupLR" : "AdamW";
    if (key.about.takers != nullptr)
      type = std::string(key.about.takers).substr(0, std::string(key.about.takers).find(' '));
    std::string text = with_auto(key.path, type);
    if (key.path.find("batch") == std::string::npos && key.path != "gradient_accumulation_steps")
      text = "{\"train_batch_size\": 8, " + text.substr(1);
    const auto problems = problems_of(text, {.total_steps = 5000});
    const bool at_path = any_holds(problems, ": " + key.path + ": \"auto\"");
    if (key.about.automatic != nullptr) {
      EXPECT_FALSE(at_path) << text;
      ++resolved;
    } else if (key.field.kind != Kind::text) {  // For a text it is a word like any other.
      bool names_auto = false;
      for (const Choice& choice : key.field.choices) names_auto = names_auto || std::string(choice.name) == "auto";
      EXPECT_EQ(at_path, !names_auto) << text << testing::PrintToString(problems);
      ++refused;
    }
  }
  EXPECT_GE(resolved, 20);
  EXPECT_GE(refused, 150);
}

TEST(Automatic, BatchKeysAreAsIfAbsent) {
  const Config config = parse(R"({"train_batch_size": "auto", "train_micro_batch_size_per_gpu": 4,
                                  "gradient_accumulation_steps": "auto"})",
                              {.world_size = 2});
  EXPECT_EQ(config.train_batch_size, 8);
  EXPECT_EQ(config.gradient_accumulation_steps, 1);
  EXPECT_EQ(config.provenance("train_batch_size").source, Origin::Source::automatic);
  EXPECT_TRUE(any_holds(config.notices(), "train_batch_size: \"auto\" is 8 (micro batch x accumulation x replicas)"));
  EXPECT_TRUE(any_holds(problems_of(R"({"train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto"})"),
                        "no batch size"));
}

TEST(Automatic, BucketsComeFromTheHiddenSize) {
  const std::string text =
      whole(R"("zero_optimization": {"reduce_bucket_size": "auto", "stage3_prefetch_bucket_size": "auto",
                                     "stage3_param_persistence_threshold": "auto"})");
  const Config known = parse(text, {.hidden_size = 100});
  EXPECT_EQ(known.zero_optimization.reduce_bucket_size, 10000);
  EXPECT_EQ(known.zero_optimization.stage3_prefetch_bucket_size, 9000);
  EXPECT_EQ(known.zero_optimization.stage3_param_persistence_threshold, 1000);
  const Config unknown = parse(text);
  EXPECT_EQ(unknown.zero_optimization.reduce_bucket_size, std::nullopt);
  EXPECT_EQ(unknown.zero_optimization.stage3_prefetch_bucket_size, 50000000);
  EXPECT_TRUE(any_holds(unknown.notices(), "hidden size is not known here"));
}

TEST(Automatic, SchedulesComeFromTheOptimizerAndTheRun) {
  const std::string text = whole(R"("scheduler": {"type": "WarmupDecayLR", "params": {"warmup_min_lr": "auto",
      "warmup_max_lr": "auto", "warmup_num_steps": "auto", "total_num_steps": "auto"}})");
  const Config config = parse(text, {.total_steps = 500});
  EXPECT_EQ(config.scheduler.params.warmup_min_lr, PerGroup{0});
  EXPECT_EQ(config.scheduler.params.warmup_max_lr, PerGroup{0.001});
  EXPECT_EQ(config.scheduler.params.total_num_steps, 500);
  EXPECT_EQ(config.scheduler.params.warmup_num_steps, 50);
  EXPECT_TRUE(any_holds(problems_of(text), "\"auto\" is the run's number of steps, which is not known here"));
}

TEST(Automatic, StagesOfAPipelineAreAllRanks) {
  const auto problems = problems_of(R"({"train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 4,
      "pipeline": {"enabled": true, "stages": "auto"}})",
                                    {.world_size = 4});
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_THAT(problems[0], HasSubstr("pipeline parallelism is not yet built"));
}

}  // namespace
}  // namespace lockstep::config
