#include "data/token_file.h"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "lockstep/error.h"

namespace lockstep {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

class TokenFileTest : public testing::Test {
 protected:
  TokenFileTest() { std::filesystem::create_directories(folder_); }
  ~TokenFileTest() override { std::filesystem::remove_all(folder_); }

  std::string write(const std::string& name, std::string_view text) {
    const std::string path = folder_ + "/" + name;
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }
  static std::vector<int64_t> read(const TokenSource& source, int64_t offset, size_t count) {
    std::vector<int64_t> tokens(count);
    source.read(offset, tokens);
    return tokens;
  }

  const std::string folder_ = testing::TempDir() + "token_file_test_" + std::to_string(::getpid());
};

TEST_F(TokenFileTest, BytesAreTokens) {
  const auto source = open_text_files({write("a.txt", std::string_view("A\n\xff\0z", 5))});
  EXPECT_EQ(source->size(), 5);
  EXPECT_EQ(source->vocabulary(), 256);
  EXPECT_THAT(read(*source, 0, 5), ElementsAre(65, 10, 255, 0, 122));
  EXPECT_THAT(read(*source, 3, 2), ElementsAre(0, 122));
}

TEST_F(TokenFileTest, SeveralFilesFollowEachOther) {
  const auto source = open_text_files({write("a", "ab"), write("b", "c"), write("c", "de")});
  EXPECT_EQ(source->size(), 5);
  EXPECT_THAT(read(*source, 0, 5), ElementsAre('a', 'b', 'c', 'd', 'e'));
  EXPECT_THAT(read(*source, 1, 3), ElementsAre('b', 'c', 'd'));
  EXPECT_THAT(read(*source, 3, 1), ElementsAre('d'));
  EXPECT_THAT(source->name(), HasSubstr("a and 2 more"));
}

TEST_F(TokenFileTest, ErrorsNameTheFileAndTheReason) {
  const auto opening = [](std::string path) { return [path] { (void)open_text_files({path}); }; };
  EXPECT_THAT(opening(folder_ + "/absent.txt"),
              ThrowsMessage<IoError>(AllOf(HasSubstr("absent.txt"), HasSubstr("no such file"))));
  EXPECT_THAT(opening(write("empty.txt", "")),
              ThrowsMessage<IoError>(AllOf(HasSubstr("empty.txt"), HasSubstr("file is empty"))));
  EXPECT_THAT(opening(folder_), ThrowsMessage<IoError>(HasSubstr("is a directory")));
  ASSERT_EQ(::mkfifo((folder_ + "/pipe").c_str(), 0600), 0);
  EXPECT_THAT(opening(folder_ + "/pipe"), ThrowsMessage<IoError>(HasSubstr("not a regular file")));
  EXPECT_THROW((void)open_text_files({}), ConfigError);
}

}  // namespace
}  // namespace lockstep
