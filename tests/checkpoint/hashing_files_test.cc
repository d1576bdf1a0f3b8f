#include "checkpoint/hashing_files.h"

#include <gtest/gtest.h>

#include "checkpoint/memory_files.h"

namespace lockstep::checkpoint {
namespace {

TEST(HashingFilesTest, HashesWhatIsWritten) {
  MemoryFiles inner;
  HashingFiles files(inner);
  files.create_directories("d");
  const std::string text(1000, 'a');
  const auto file = files.create("d/f");
  for (const size_t cut : {0U, 1U, 600U}) file->write(std::as_bytes(std::span(text).subspan(cut)));
  file->close();
  const std::string whole = inner.read_text("d/f");
  EXPECT_EQ(whole.size(), 1000U + 999U + 400U);
  EXPECT_EQ(files.last_bytes(), static_cast<int64_t>(whole.size()));
  EXPECT_EQ(files.last_xxh3(), xxh3(std::as_bytes(std::span(whole))));
  files.write_text("d/empty", "");
  EXPECT_EQ(files.last_bytes(), 0);
  EXPECT_EQ(files.last_xxh3(), 0x2d06800538d394c2U);  // XXH3 of nothing, as published.
}

}  // namespace
}  // namespace lockstep::checkpoint
