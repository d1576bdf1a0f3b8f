#include "checkpoint/names.h"

#include <gtest/gtest.h>

#include "lockstep/error.h"

namespace lockstep::checkpoint {
namespace {

TEST(NamesTest, PieceNamesReadBack) {
  for (const char* parameter : {"wte.weight", "a/b", "a@1+2", "", "x@y"}) {
    const PieceName weight{.parameter = parameter, .offset = 0, .numel = 64};
    EXPECT_EQ(parse_piece_name(to_text(weight), false), weight);
    const PieceName moment{.state = "exp_avg", .parameter = parameter, .offset = 1234567890123, .numel = 0};
    EXPECT_EQ(parse_piece_name(to_text(moment), true), moment);
  }
  EXPECT_EQ(to_text({.state = "exp_avg", .parameter = "wte.weight", .offset = 64, .numel = 3}),
            "exp_avg/wte.weight@64+3");
}

TEST(NamesTest, OtherNamesAreNone) {
  for (const char* text :
       {"", "wte.weight", "a@1", "a@+1", "a@1+", "a@-1+2", "a@1+2x", "a@1 +2", "a@99999999999999999999+1"})
    EXPECT_EQ(parse_piece_name(text, false), std::nullopt) << text;
  for (const char* text : {"a@1+2", "/a@1+2", "a@1+2/3"}) EXPECT_EQ(parse_piece_name(text, true), std::nullopt) << text;
}

TEST(NamesTest, TagsAreFolderNames) {
  for (const char* tag : {"global_step10", "run-step_10", "a.b", "old", "best model"}) EXPECT_NO_THROW(check_tag(tag));
  EXPECT_NO_THROW(check_tag(std::string(200, 'x')));
  EXPECT_THROW(check_tag(std::string(201, 'x')), ConfigError);
}

}  // namespace
}  // namespace lockstep::checkpoint
