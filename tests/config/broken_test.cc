// Broken files: each gives one clear message at the right place.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/parse.h"

namespace lockstep::config {
namespace {

using testing::HasSubstr;
using testing::SizeIs;
using testing::StartsWith;

struct Broken {
  const char* text;
  const char* start;  ///< How the only message begins, after "c.json: ".
  const char* words;  ///< What else it says.
};

void PrintTo(const Broken& broken, std::ostream* out) { *out << broken.text; }

class BrokenText : public testing::TestWithParam<Broken> {};

TEST_P(BrokenText, IsOneClearMessage) {
  const auto problems = problems_of(GetParam().text);
  ASSERT_THAT(problems, SizeIs(1)) << (problems.empty() ? "" : ConfigError(problems).what());
  EXPECT_THAT(problems[0], StartsWith(std::string("c.json: ") + GetParam().start));
  EXPECT_THAT(problems[0], HasSubstr(GetParam().words));
  EXPECT_THAT(problems[0], testing::Not(HasSubstr("\n")));
}

const Broken kSyntax[] = {
    {"", "line 1, column 1: ", "file is empty"},
    {" \n\t ", "line 1, column 1: ", "file is empty"},
    {"// nothing\n/* here */", "line 1, column 1: ", "file is empty"},
    {"\xEF\xBB\xBF", "line 1, column 1: ", "file is empty"},
    {"[1, 2]", "line 1, column 1: ", "expected an object"},
    {"5", "line 1, column 1: ", "expected an object"},
    {"null", "line 1, column 1: ", "expected an object"},
    {"\"train_batch_size\": 8", "line 1, column 1: ", "expected an object"},
    {"train_batch_size: 8", "line 1, column 1: ", "expected an object"},
    {"{\"train_batch_size\": 8", "line 1, column 1: ", "not closed; add }"},
    {"{\"train_batch_size\": 8}}", "line 1, column 24: ", "after the closing brace"},
    {"{\"train_batch_size\": 8} x", "line 1, column 25: ", "after the closing brace"},
    {"{\n  \"train_batch_size\": 8\n  \"steps_per_print\": 1\n}", "line 3, column 3: ", "comma is missing"},
    {"{\"train_batch_size\": 8,, \"steps_per_print\": 1}", "line 1, column 24: ", "two commas"},
    {"{\"train_batch_size\" 8}", "line 1, column 21: train_batch_size: ", "expected ':'"},
    {"{\"train_batch_size\": }", "line 1, column 22: train_batch_size: ", "a value is missing"},
    {"{\"train_batch_size\":", "line 1, column 21: train_batch_size: ", "the file ends"},
    {"{train_batch_size: 8}", "line 1, column 2: ", "write \"train_batch_size\""},
    {"{'train_batch_size': 8}", "line 1, column 2: ", "write \"train_batch_size\""},
    {"{\"train_batch_size\": 8, \"wall_clock_breakdown\": True}",
     "line 1, column 49: wall_clock_breakdown: ", "write true"},
    {"{\"train_batch_size\": 8, \"wall_clock_breakdown\": False,}",
     "line 1, column 49: wall_clock_breakdown: ", "write false"},
    {"{\"train_batch_size\": 8, \"fp16\": {\"enabled\": yes}}", "line 1, column 45: fp16.enabled: ", "write true"},
    {"{\"train_batch_size\": 8, \"steps_per_print\": None}", "line 1, column 44: steps_per_print: ", "write null"},
    {"{\"train_batch_size\": 8, \"gradient_clipping\": NaN}",
     "line 1, column 46: gradient_clipping: ", "finite number"},
    {"{\"train_batch_size\": 8, \"gradient_clipping\": Infinity}",
     "line 1, column 46: gradient_clipping: ", "finite number"},
    {"{\"train_batch_size\": 8, \"gradient_clipping\": -Infinity}",
     "line 1, column 46: gradient_clipping: ", "finite number"},
    {"{\"train_batch_size\": +8}", "line 1, column 22: train_batch_size: ", "without the plus sign: 8"},
    {"{\"train_batch_size\": 8, \"gradient_clipping\": .5}", "line 1, column 46: gradient_clipping: ", "write 0.5"},
    {"{\"train_batch_size\": 8, \"gradient_clipping\": 5.}", "line 1, column 46: gradient_clipping: ", "point: 5.0"},
    {"{\"train_batch_size\": 007}", "line 1, column 22: train_batch_size: ", "leading zeros: 7"},
    {"{\"train_batch_size\": 0x10}", "line 1, column 22: train_batch_size: ", "decimal digits"},
    {"{\"train_batch_size\": 5e}", "line 1, column 22: train_batch_size: ", "digits after the e"},
    {"{\"train_batch_size\": 1.2.3}", "line 1, column 22: train_batch_size: ", "write a number"},
    {"{\"train_batch_size\": 8, \"gradient_clipping\": 1e999}", "line 1, column 46: gradient_clipping: ", "too large"},
    {"{\"train_batch_size\": eight}", "line 1, column 22: train_batch_size: ", "double quotes: \"eight\""},
    {"{\"train_batch_size\": 8, \"log_level\": 'info'}", "line 1, column 38: log_level: ", "double quotes"},
    {"{\"train_batch_size\": 8, \"log_level\": \"info}",
     "line 1, column 38: log_level: ", "close it with a double quote"},
    {"{\"train_batch_size\": 8, \"log_level\": \"in\\qfo\"}", "line 1, column 41: log_level: ", "unknown escape"},
    {"{\"train_batch_size\": 8, \"checkpoint\": {\"prefix\": \"\\ud800\"}}",
     "line 1, column 51: checkpoint.prefix: ", "escape that is no character"},
    {"{\"train_batch_size\": 8, /* open", "line 1, column 25: ", "close it with */"},
    {"{\"train_batch_size\": 8, \"train_batch_size\": 8}", "line 1, column 25: train_batch_size: ", "duplicate key"},
    {"{\"train_batch_size\": 8, \"fp16\": {\"hysteresis\": 2,\n \"hysteresis\": 3}}",
     "line 2, column 2: fp16.hysteresis: ", "duplicate key, first given at line 1, column 34"},
    {"{\"train_batch_size\": 8, \"log_level\": \"\xFF\"}", "line 1, column 39: ", "0xFF is not UTF-8"},
    {"{\"caf\xC3\xA9\": 1, \"x\": \"\xC3\"}", "line 1, column 19: ", "not UTF-8"},
    {"{\"train_batch_size\": 8] ", "line 1, column 23: ", "expected ',' or '}'"},
    {"{\"train_batch_size\": @}", "line 1, column 22: train_batch_size: ", "expected a value"},
};
INSTANTIATE_TEST_SUITE_P(Syntax, BrokenText, testing::ValuesIn(kSyntax));

const Broken kValues[] = {
    {"{\"train_batch_size\": \"8\"}", "line 1, column 22: train_batch_size: ", "without quotes: 8"},
    {"{\"train_batch_size\": 2.5}", "line 1, column 22: train_batch_size: ", "2.5 is not a whole number"},
    {"{\"train_batch_size\": 0}",
     "line 1, column 22: train_batch_size: ", "0 is out of range; write a whole number at least 1"},
    {"{\"train_batch_size\": -8}", "line 1, column 22: train_batch_size: ", "out of range"},
    {"{\"train_batch_size\": true}", "line 1, column 22: train_batch_size: ", "not a whole number"},
    {"{\"train_batch_size\": [8]}", "line 1, column 22: train_batch_size: ", "a list is not a whole number"},
    {"{\"train_batch_size\": 99999999999999999999}", "line 1, column 22: train_batch_size: ", "too large"},
    {"{\"train_batch_size\": 1e30}", "line 1, column 22: train_batch_size: ", "too large"},
    {"{\"train_batch_size\": 8, \"steps_per_print\": 0}", "line 1, column 44: steps_per_print: ", "at least 1"},
    {"{\"train_batch_size\": 8, \"wall_clock_breakdown\": 1}",
     "line 1, column 49: wall_clock_breakdown: ", "write true"},
    {"{\"train_batch_size\": 8, \"wall_clock_breakdown\": \"False\"}",
     "line 1, column 49: wall_clock_breakdown: ", "write false"},
    {"{\"train_batch_size\": 8, \"wall_clock_breakdown\": \"maybe\"}",
     "line 1, column 49: wall_clock_breakdown: ", "neither true nor false"},
    {"{\"train_batch_size\": 8, \"gradient_clipping\": -1}", "line 1, column 46: gradient_clipping: ", "at least 0"},
    {"{\"train_batch_size\": 8, \"gradient_predivide_factor\": 0}",
     "line 1, column 54: gradient_predivide_factor: ", "greater than 0"},
    {"{\"train_batch_size\": 8, \"communication_data_type\": \"fp23\"}",
     "line 1, column 52: communication_data_type: ", "write \"fp32\""},
    {"{\"train_batch_size\": 8, \"communication_data_type\": \"complex\"}",
     "line 1, column 52: communication_data_type: ", "write \"fp32\", \"fp16\", \"bf16\" or \"int8\""},
    {"{\"train_batch_size\": 8, \"log_level\": \"loud\"}", "line 1, column 38: log_level: ", "write \"debug\""},
    {"{\"train_batch_size\": 8, \"log_level\": 3}", "line 1, column 38: log_level: ", "3 is not text"},
    {"{\"train_batch_size\": 8, \"fp16\": true}", "line 1, column 33: fp16: ", "expected an object"},
    {"{\"train_batch_size\": 8, \"fp16\": {\"enabled\": null}}",
     "line 1, column 45: fp16.enabled: ", "null is not legal"},
    {"{\"train_batch_size\": 8, \"zero_optimization\": {\"stage\": 4}}",
     "line 1, column 56: zero_optimization.stage: ", "from 0 to 3"},
    {"{\"train_batch_size\": 8, \"zero_optimization\": 2}",
     "line 1, column 46: zero_optimization: ", "expected an object"},
    {"{\"train_batch_size\": 8, \"optimizer\": {\"params\": {}}}", "line 1, column 38: optimizer.type: ", "missing"},
    {"{\"train_batch_size\": 8, \"optimizer\": {\"type\": \"Adan\"}}",
     "line 1, column 47: optimizer.type: ", "write \"Adam\""},
    {"{\"train_batch_size\": 8, \"optimizer\": {\"type\": \"sgd\"}}",
     "line 1, column 47: optimizer.type: ", "write \"SGD\""},
    {"{\"train_batch_size\": 8, \"optimizer\": {\"type\": 7}}", "line 1, column 47: optimizer.type: ", "7 is not text"},
    {"{\"train_batch_size\": 8, \"optimizer\": {\"type\": \"Adam\", \"params\": {\"betas\": [0.9]}}}",
     "line 1, column 75: optimizer.params.betas: ", "a list of two numbers"},
    {"{\"train_batch_size\": 8, \"optimizer\": {\"type\": \"Adam\", \"params\": {\"betas\": [0.9, 1]}}}",
     "line 1, column 81: optimizer.params.betas[1]: ", "from 0 to below 1"},
    {"{\"train_batch_size\": 8, \"optimizer\": {\"type\": \"Adam\", \"params\": {\"momentum\": 0.9}}}",
     "line 1, column 66: optimizer.params.momentum: ", "Adam does not take it"},
    {"{\"train_batch_size\": 8, \"optimizer\": {\"type\": \"SGD\", \"params\": {\"betas\": [0.9, 0.99]}}}",
     "line 1, column 65: optimizer.params.betas: ", "SGD does not take it"},
    {"{\"train_batch_size\": 8, \"optimizer\": {\"type\": \"Adam\", \"adam_w_mode\": false}}",
     "line 1, column 55: optimizer.adam_w_mode: ", "its place is optimizer.params"},
    {"{\"train_batch_size\": 8, \"stage\": 1}", "line 1, column 25: stage: ", "its place is zero_optimization"},
    {"{\"train_batch_size\": 8, \"zero_optimization.stage\": 1}",
     "line 1, column 25: zero_optimization.stage: ", "blocks inside each other"},
    {"{\"train_batch_size\": 8, \"fp16\": {\"qqqqq\": 1}}",
     "line 1, column 34: fp16.qqqqq: ", "legal here: \"enabled\""},
    {"{\"train_batch_size\": 8, \"lockstep\": {\"timeout\": 0}}",
     "line 1, column 49: lockstep.timeout: ", "greater than 0"},
    {"{\"train_batch_size\": 8, \"lockstep\": {\"no_decay\": [1]}}",
     "line 1, column 51: lockstep.no_decay[0]: ", "1 is not text"},
    {"{\"train_batch_size\": 8, \"aio\": {\"thread_count\": 1}}",
     "line 1, column 33: aio.thread_count: ", "write \"intra_op_parallelism\""},
    {"{\"train_batch_size\": 8, \"bf16\": {\"check_overflow\": true}}",
     "line 1, column 34: bf16.check_overflow: ", "write \"check_grad_overflow\""},
};
INSTANTIATE_TEST_SUITE_P(Values, BrokenText, testing::ValuesIn(kValues));

TEST(Broken, AllProblemsAreReportedAtOnceInTheOrderOfTheFile) {
  const auto problems = problems_of(R"({
  "train_batch_size": "8",
  "fp16": {"enabled": True, "hysteresis": 0},
  "gradient_cliping": 1.0,
  "zero_optimization": {"stage": 7},
  "steps_per_print": 0
})");
  ASSERT_THAT(problems, SizeIs(6));
  EXPECT_THAT(problems[0], StartsWith("c.json: line 2, column 23: train_batch_size: "));
  EXPECT_THAT(problems[1], StartsWith("c.json: line 3, column 23: fp16.enabled: "));
  EXPECT_THAT(problems[2], StartsWith("c.json: line 3, column 43: fp16.hysteresis: "));
  EXPECT_THAT(problems[3],
              StartsWith("c.json: line 4, column 3: gradient_cliping: unknown key; write \"gradient_clipping\""));
  EXPECT_THAT(problems[4], StartsWith("c.json: line 5, column 34: zero_optimization.stage: "));
  EXPECT_THAT(problems[5], StartsWith("c.json: line 6, column 22: steps_per_print: "));
}

TEST(Broken, ColumnsCountCharactersNotBytes) {
  const auto problems = problems_of("{\"train_batch_size\": 8, /* äöü */ \"log_level\": 1}");
  ASSERT_THAT(problems, SizeIs(1));
  EXPECT_THAT(problems[0], StartsWith("c.json: line 1, column 48: log_level"));
}

TEST(Broken, DeepNestingIsRefusedNotFollowed) {
  const std::string deep = "{\"a\":" + std::string(100000, '[');
  EXPECT_TRUE(any_holds(problems_of(deep), "nested deeper than 64 levels"));
}

TEST(Broken, WhatJsonWithCommentsAllowsIsRead) {
  const Config config = parse(R"(// a comment
{ # another
  "train_batch_size": 16, /* and one
  over two lines */
  "zero_optimization": {"reduce_bucket_size": 5e8, "stage": 0.0,},
  "gradient_clipping": 0.5e0,
})");
  EXPECT_EQ(config.train_batch_size, 16);
  EXPECT_EQ(config.zero_optimization.reduce_bucket_size, 500000000);
  EXPECT_EQ(config.gradient_clipping, 0.5);
}

TEST(Broken, UnknownKeysAreWarningsWhenLenient) {
  const Config config =
      parse(R"({"train_batch_size": 8, "gradient_cliping": 1, "fp16": {"enabledd": true}})", {.lenient = true});
  ASSERT_THAT(config.warnings(), SizeIs(2));
  EXPECT_THAT(config.warnings()[0],
              HasSubstr("line 1, column 25: gradient_cliping: unknown key; write \"gradient_clipping\""));
  EXPECT_THAT(config.warnings()[1], HasSubstr("write \"enabled\""));
}

TEST(Broken, AnUnreadableFileIsAnIoErrorThatNamesIt) {
  try {
    (void)Config::from_file("/nonexistent/ds_config.json");
    FAIL();
  } catch (const IoError& error) {
    EXPECT_THAT(error.what(), HasSubstr("/nonexistent/ds_config.json"));
  }
}

}  // namespace
}  // namespace lockstep::config
