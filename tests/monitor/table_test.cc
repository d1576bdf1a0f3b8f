#include "monitor/table.h"

#include <gtest/gtest.h>

namespace lockstep::monitor {
namespace {

TEST(TableTest, AlignsColumns) {
  EXPECT_EQ(format_table(
                "Training",
                {{"model", "gpt2-nano", "10.8 M parameters"}, {"world", "2"}, {"train_batch_size", "8", "2 x 2 x 2"}}),
            "Training\n"
            "  model             gpt2-nano  10.8 M parameters\n"
            "  world             2\n"
            "  train_batch_size  8          2 x 2 x 2\n");
}

TEST(TableTest, LongValuesWithoutANoteDoNotPushTheNotes) {
  EXPECT_EQ(format_table("", {{"data", "a/very/long/path/to/corpus.txt"}, {"lr", "0.1", "auto"}}),
            "  data  a/very/long/path/to/corpus.txt\n"
            "  lr    0.1  auto\n");
}

TEST(TableTest, CountsLettersNotBytes) {
  EXPECT_EQ(format_table("", {{"Größe", "1"}, {"Zahlen", "2"}}), "  Größe   1\n  Zahlen  2\n");
}

}  // namespace
}  // namespace lockstep::monitor
