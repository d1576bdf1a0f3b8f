#include "base/files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "lockstep/error.h"

namespace lockstep::base {
namespace {

class FilesTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "lockstep_files_test";
    files_.remove_all(folder_);
    files_.create_directories(folder_ + "/a/b");
  }
  void TearDown() override { files_.remove_all(folder_); }

  FileSystem& files_ = host_files();
  std::string folder_;
};

TEST_F(FilesTest, WritesMapsAndRenames) {
  const std::string path = folder_ + "/a/b/x";
  files_.write_text(path, "hello");
  files_.rename(path, folder_ + "/y");
  files_.sync_directory(folder_);
  EXPECT_FALSE(files_.exists(path));
  EXPECT_EQ(files_.read_text(folder_ + "/y"), "hello");
  const auto mapped = files_.map(folder_ + "/y");
  EXPECT_EQ(mapped->bytes().size(), 5);
  EXPECT_EQ(static_cast<char>(mapped->bytes()[1]), 'e');
}

TEST_F(FilesTest, AnEmptyFileMapsToNoBytes) {
  files_.write_text(folder_ + "/empty", "");
  EXPECT_TRUE(files_.map(folder_ + "/empty")->bytes().empty());
}

TEST_F(FilesTest, ErrorsNamePathAndReason) {
  const auto message_of = [](const std::function<void()>& call) -> std::string {
    try {
      call();
    } catch (const IoError& error) {
      return error.what();
    }
    return "no error";
  };
  using testing::AllOf;
  using testing::HasSubstr;
  EXPECT_THAT(message_of([&] { (void)files_.map(folder_ + "/none"); }),
              AllOf(HasSubstr(folder_ + "/none"), HasSubstr("No such file")));
  EXPECT_THAT(message_of([&] { (void)files_.map(folder_); }), HasSubstr("directory"));
  EXPECT_THAT(message_of([&] { files_.write_text(folder_, "x"); }), HasSubstr("directory"));
  EXPECT_THAT(message_of([&] { files_.rename(folder_ + "/none", folder_ + "/z"); }), HasSubstr("rename to"));
}

}  // namespace
}  // namespace lockstep::base
