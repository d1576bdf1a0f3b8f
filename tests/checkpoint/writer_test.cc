#include "checkpoint/writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "checkpoint/memory_files.h"
#include "checkpoint/reader.h"
#include "checkpoint/sample.h"
#include "comm/local/local_group.h"
#include "lockstep/error.h"

namespace lockstep::checkpoint {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr int kWorld = 2;

/// Every rank saves; the errors of all ranks, in rank order, empty where it went well.
std::vector<std::string> save_sample(base::FileSystem& files, const std::string& directory, const std::string& tag,
                                     int64_t step) {
  std::vector<std::string> errors(kWorld);
  comm::run_ranks(kWorld, [&](Communicator& group) {
    try {
      save(group, files, sample_request(directory, tag, step, group.rank(), kWorld));
    } catch (const IoError& error) {
      errors[static_cast<size_t>(group.rank())] = error.what();
    }
  });
  return errors;
}

/// Requires: DIRECTORY holds a checkpoint.  Returns its step once every byte of it was checked.
int64_t complete_step(base::FileSystem& files, const std::string& directory) {
  Reader reader = Reader::open(files, directory);
  reader.verify();
  const int64_t step = reader.state().steps;
  for (const auto& [name, shape] : sample_parameters()) {
    std::vector<float> values(static_cast<size_t>(numel_of(shape)));
    reader.read(name, "exp_avg_sq", 0, values);
    for (size_t element = 0; element < values.size(); ++element)
      EXPECT_EQ(values[element], sample_value(name, "exp_avg_sq", static_cast<int64_t>(element), step));
  }
  return step;
}

class WriterTest : public testing::TestWithParam<std::string> {};

// Whatever operation is the last one, before or after a crash of the machine `latest` names a complete checkpoint.
TEST_P(WriterTest, KilledAnywhereLeavesACompleteCheckpoint) {
  const std::string second_tag = GetParam();
  enum class Crash { none, machine, machine_files_first };
  bool saved = false;
  for (int operations = 0; !saved; ++operations) {
    ASSERT_LT(operations, 1000);
    for (const Crash crash : {Crash::none, Crash::machine, Crash::machine_files_first}) {
      MemoryFiles files;
      files.create_directories("ckpt");
      files.sync_directory("");
      ASSERT_THAT(save_sample(files, "ckpt", "first", 1), ElementsAre("", ""));
      files.fail_after(operations);
      const auto errors = save_sample(files, "ckpt", second_tag, 2);
      EXPECT_EQ(errors[0], errors[1]);
      saved = errors[0].empty();
      files.fail_after(std::numeric_limits<int>::max());
      if (crash != Crash::none) files.crash(crash == Crash::machine_files_first);
      const int64_t step = complete_step(files, "ckpt");
      EXPECT_TRUE(saved ? step == 2 : step == 1 || step == 2) << operations;
      // And training goes on.
      ASSERT_THAT(save_sample(files, "ckpt", second_tag, 3), ElementsAre("", ""));
      EXPECT_EQ(complete_step(files, "ckpt"), 3);
      EXPECT_FALSE(files.exists("ckpt/." + second_tag + ".tmp"));
      EXPECT_FALSE(files.exists("ckpt/" + second_tag + ".old"));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Tags, WriterTest, testing::Values("first", "second"));

TEST(SaveTest, AFullDiskIsAnErrorOnAllRanksAndLeavesTheOldCheckpoint) {
  for (const int64_t free_bytes : {0, 100, 3000, 12000}) {
    MemoryFiles files;
    ASSERT_THAT(save_sample(files, "ckpt", "first", 1), ElementsAre("", ""));
    files.fill_disk_after(free_bytes);
    const auto errors = save_sample(files, "ckpt", "second", 2);
    EXPECT_EQ(errors[0], errors[1]);
    EXPECT_THAT(errors[0], AllOf(HasSubstr("rank "), HasSubstr("ckpt/.second.tmp/"), HasSubstr("No space left")));
    EXPECT_EQ(complete_step(files, "ckpt"), 1);
    EXPECT_THAT(files.list("ckpt"), ElementsAre("first", "latest"));
  }
}

TEST(SaveTest, NamesTheRankThatFailed) {
  /// Rank 1's weights cannot be written.
  class Files final : public base::FileSystem {
   public:
    std::unique_ptr<base::OutputFile> create(const std::string& path) override {
      if (path.ends_with("weights-1-of-2.safetensors")) throw IoError(path + ": cannot create: Input/output error");
      return inner.create(path);
    }
    std::unique_ptr<base::MappedFile> map(const std::string& path) override { return inner.map(path); }
    std::string read_text(const std::string& path) override { return inner.read_text(path); }
    bool exists(const std::string& path) override { return inner.exists(path); }
    void create_directories(const std::string& path) override { inner.create_directories(path); }
    void rename(const std::string& from, const std::string& to) override { inner.rename(from, to); }
    void remove_all(const std::string& path) override { inner.remove_all(path); }
    void sync_directory(const std::string& path) override { inner.sync_directory(path); }
    MemoryFiles inner;
  } files;
  const std::string expected = "rank 1: ckpt/.a.tmp/weights-1-of-2.safetensors: cannot create: Input/output error";
  EXPECT_THAT(save_sample(files, "ckpt", "a", 1), ElementsAre(expected, expected));
}

TEST(SaveTest, ReplacesACheckpointOfTheSameTag) {
  const std::string folder = testing::TempDir() + "lockstep_writer_test_" + std::to_string(::getpid());
  auto& files = base::host_files();
  files.remove_all(folder);
  for (const int64_t step : {5, 6}) {
    ASSERT_THAT(save_sample(files, folder, "best", step), ElementsAre("", ""));
    EXPECT_EQ(complete_step(files, folder), step);
  }
  EXPECT_FALSE(files.exists(folder + "/best.old"));
  EXPECT_FALSE(files.exists(folder + "/.best.tmp"));
  EXPECT_EQ(files.read_text(folder + "/latest"), "best\n");
  files.remove_all(folder);
}

TEST(SaveTest, RanksThatDifferAreTold) {
  MemoryFiles files;
  EXPECT_THAT(
      [&] {
        comm::run_ranks(kWorld, [&](Communicator& group) {
          save(group, files, sample_request("ckpt", group.rank() == 0 ? "a" : "b", 1, group.rank(), kWorld));
        });
      },
      ThrowsMessage<ConfigError>(HasSubstr("folder, tag or step")));
  EXPECT_TRUE(files.list("ckpt").empty());
}

TEST(SaveTest, CalledByOneRankOnlyEndsAtTheDeadline) {
  MemoryFiles files;
  EXPECT_THROW(comm::run_ranks(kWorld,
                               [&](Communicator& group) {
                                 if (group.rank() == 0) save(group, files, sample_request("ckpt", "a", 1, 0, kWorld));
                               },
                               {.deadline = std::chrono::milliseconds(200)}),
               CommError);
  EXPECT_TRUE(files.list("ckpt").empty());
}

TEST(SaveTest, RefusesATag) {
  MemoryFiles files;
  for (const char* tag : {"", "a/b", ".", "..", ".hidden", "latest", "x.old", "a\nb"})
    EXPECT_THROW(
        comm::run_ranks(1, [&](Communicator& group) { save(group, files, sample_request("ckpt", tag, 1, 0, 1)); }),
        ConfigError)
        << tag;
}

}  // namespace
}  // namespace lockstep::checkpoint
