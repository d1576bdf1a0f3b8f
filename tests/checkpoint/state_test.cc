#include "checkpoint/state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/sample.h"
#include "lockstep/error.h"

namespace lockstep::checkpoint {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

Manifest sample_manifest() {
  return {.state = sample_state(10, 3), .files = {{"weights-0-of-1.safetensors", 1234567890123, 0xfffffffffffffff0U}}};
}

TEST(StateTest, ReadsBackWhatItWrote) {
  const Manifest manifest = sample_manifest();
  EXPECT_EQ(parse_manifest(to_json_text(manifest), "state.json"), manifest);
}

TEST(StateTest, ConfigAndModelAreReadableInside) {
  const std::string text = to_json_text(sample_manifest());
  EXPECT_THAT(text, AllOf(HasSubstr("\"model_type\": \"gpt2\""), HasSubstr("\"lr\": 0.1")));
}

TEST(StateTest, AnEmptyModelStaysEmpty) {
  Manifest manifest;
  manifest.state.config = "{}\n";
  EXPECT_EQ(parse_manifest(to_json_text(manifest), "state.json"), manifest);
}

TEST(StateTest, SaysWhatIsWrong) {
  const std::string text = to_json_text(sample_manifest());
  const auto fails_with = [](const std::string& broken, const auto& matcher) {
    EXPECT_THAT([&] { parse_manifest(broken, "d/state.json"); }, ThrowsMessage<CheckpointError>(matcher));
  };
  fails_with("", HasSubstr("d/state.json"));
  fails_with("[]", HasSubstr("not a checkpoint"));
  fails_with("{}", HasSubstr("not a checkpoint"));
  fails_with(text.substr(0, text.size() - 10), HasSubstr("incomplete or damaged"));
  fails_with(replaced(text, "\"version\": 1", "\"version\": 2"),
             AllOf(HasSubstr("d/state.json"), HasSubstr("format version 2"), HasSubstr("reads up to 1")));
  fails_with(replaced(text, "\"tokens\"", "\"tokenz\""), HasSubstr("tokens"));
  fails_with(replaced(text, "\"steps\": 10", "\"steps\": \"ten\""), HasSubstr("incomplete or damaged"));
  fails_with(replaced(text, "fffffffffffffff0", "FFFFFFFFFFFFFFF0"), HasSubstr("hexadecimal"));
}

TEST(StateTest, NamesDifferencesOfTheRun) {
  const RunFacts there = sample_state(1, 2).run;
  RunFacts here = there;
  EXPECT_TRUE(differences(there, here).empty());
  here.world_size = 4;
  here.simd_level = "SSE2";
  EXPECT_THAT(differences(there, here), ElementsAre("ranks (2 there, 4 here)", "SIMD level (AVX2 there, SSE2 here)"));
}

}  // namespace
}  // namespace lockstep::checkpoint
