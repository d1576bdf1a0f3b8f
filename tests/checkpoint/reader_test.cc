#include "checkpoint/reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "checkpoint/memory_files.h"
#include "checkpoint/names.h"
#include "checkpoint/sample.h"
#include "comm/local/local_group.h"
#include "lockstep/error.h"

namespace lockstep::checkpoint {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

void save_sample(MemoryFiles& files, const std::string& tag, int64_t step, int world) {
  comm::run_ranks(world, [&](Communicator& group) {
    save(group, files, sample_request("run/ckpt", tag, step, group.rank(), world));
  });
}

void expect_values(Reader& reader, const std::string& parameter, const std::string& state, int64_t offset,
                   int64_t numel, int64_t step) {
  std::vector<float> got(static_cast<size_t>(numel), -1.0F);
  reader.read(parameter, state, offset, got);
  for (int64_t element = 0; element < numel; ++element)
    ASSERT_EQ(got[static_cast<size_t>(element)], sample_value(parameter, state, offset + element, step))
        << parameter << " " << state << " " << offset + element;
}

/// Reads everything in as many slices as `world` ranks would.
void expect_sample(Reader& reader, int64_t step, int world) {
  for (const auto& [name, shape] : sample_parameters()) {
    const int64_t numel = numel_of(shape);
    const int64_t slice = (numel + world - 1) / world;
    for (int64_t begin = 0; begin < numel; begin += slice)
      for (const char* state : {"", "exp_avg", "exp_avg_sq"})
        expect_values(reader, name, state, begin, std::min(slice, numel - begin), step);
  }
}

class ReaderTest : public testing::TestWithParam<std::tuple<int, int>> {};

TEST_P(ReaderTest, ReadsBackAtAnyNumberOfRanks) {
  const auto [saved, loaded] = GetParam();
  MemoryFiles files;
  save_sample(files, "global_step7", 7, saved);
  Reader reader = Reader::open(files, "run/ckpt");
  EXPECT_EQ(reader.path(), "run/ckpt/global_step7");
  EXPECT_EQ(reader.state(), sample_state(7, saved));
  EXPECT_EQ(reader.parameters().size(), sample_parameters().size());
  for (const auto& [name, shape] : sample_parameters()) EXPECT_EQ(reader.parameters().at(name), shape);
  EXPECT_THAT(reader.optimizer_states(), testing::ElementsAre("exp_avg", "exp_avg_sq"));
  expect_sample(reader, 7, loaded);
  reader.read("empty", "", 0, {});
  EXPECT_EQ(reader.read_extra_file("config.json"), "{\"model_type\": \"gpt2\"}\n");
  EXPECT_EQ(reader.read_extra_file("tokenizer.json"), "");
  reader.verify();
}

INSTANTIATE_TEST_SUITE_P(Worlds, ReaderTest, testing::Combine(testing::Range(1, 5), testing::Range(1, 5)));

TEST(ReaderErrorTest, NamesWhatIsMissing) {
  MemoryFiles files;
  save_sample(files, "a", 3, 2);
  Reader reader = Reader::open(files, "run/ckpt", "a");
  EXPECT_TRUE(reader.has("ln.bias", "exp_avg"));
  EXPECT_FALSE(reader.has("ln.bias", "momentum"));
  std::vector<float> out(301);
  EXPECT_THAT([&] { reader.read("ln.weight", "", 0, out); },
              ThrowsMessage<CheckpointError>(AllOf(HasSubstr("run/ckpt/a"), HasSubstr("has no ln.weight"))));
  EXPECT_THAT([&] { reader.read("ln.bias", "momentum", 0, out); },
              ThrowsMessage<CheckpointError>(HasSubstr("momentum of ln.bias")));
  EXPECT_THAT([&] { reader.read("ln.bias", "", 0, out); },
              ThrowsMessage<CheckpointError>(HasSubstr("lacks elements from 300 on")));
}

TEST(ReaderErrorTest, FindsADamagedByteBeforeUsingIt) {
  MemoryFiles files;
  save_sample(files, "a", 3, 2);
  files.damage("run/ckpt/a/weights-1-of-2.safetensors", 1500);
  Reader reader = Reader::open(files, "run/ckpt");
  std::vector<float> out(300);
  expect_values(reader, "ln.bias", "", 0, 100, 3);  // Rank 0's file is whole.
  for (int attempt = 0; attempt < 2; ++attempt)
    EXPECT_THAT([&] { reader.read("ln.bias", "", 0, out); },
                ThrowsMessage<CheckpointError>(AllOf(HasSubstr("weights-1-of-2.safetensors"), HasSubstr("damaged"))));
  EXPECT_THAT([&] { reader.verify(); }, ThrowsMessage<CheckpointError>(HasSubstr("weights-1-of-2.safetensors")));
}

TEST(ReaderErrorTest, FindsAFileCutShort) {
  MemoryFiles files;
  save_sample(files, "a", 3, 2);
  files.truncate("run/ckpt/a/optimizer-0-of-2.safetensors", 100);
  EXPECT_THAT([&] { Reader::open(files, "run/ckpt"); },
              ThrowsMessage<CheckpointError>(AllOf(HasSubstr("optimizer-0-of-2.safetensors"), HasSubstr("100 bytes"))));
  files.remove_all("run/ckpt/a/optimizer-0-of-2.safetensors");
  EXPECT_THAT([&] { Reader::open(files, "run/ckpt"); }, ThrowsMessage<CheckpointError>(HasSubstr("missing")));
}

TEST(ReaderErrorTest, RefusesAnIncompleteState) {
  MemoryFiles files;
  save_sample(files, "a", 3, 1);
  const std::string path = "run/ckpt/a/state.json";
  const std::string text = files.read_text(path);
  files.truncate(path, text.size() / 2);
  EXPECT_THAT([&] { Reader::open(files, "run/ckpt"); }, ThrowsMessage<CheckpointError>(HasSubstr(path)));
  files.remove_all(path);
  EXPECT_THAT([&] { Reader::open(files, "run/ckpt"); },
              ThrowsMessage<CheckpointError>(HasSubstr("not a complete checkpoint")));
}

TEST(ReaderErrorTest, FallsBackToTheReplacedCheckpoint) {
  MemoryFiles files;
  save_sample(files, "a", 3, 1);
  files.rename("run/ckpt/a", "run/ckpt/a.old");
  EXPECT_EQ(Reader::open(files, "run/ckpt").path(), "run/ckpt/a.old");
  EXPECT_EQ(Reader::open(files, "run/ckpt", "a").state().steps, 3);
}

TEST(ReaderErrorTest, SaysWhatAFolderHolds) {
  const std::string folder = testing::TempDir() + "lockstep_reader_test_" + std::to_string(::getpid());
  auto& files = base::host_files();
  EXPECT_THAT([&] { Reader::open(files, folder); },
              ThrowsMessage<CheckpointError>(HasSubstr("there is no such folder")));
  files.create_directories(folder + "/global_step10");
  EXPECT_THAT([&] { Reader::open(files, folder); },
              ThrowsMessage<CheckpointError>(AllOf(HasSubstr(folder), HasSubstr("the folder holds global_step10"))));
  EXPECT_THAT([&] { Reader::open(files, folder, "global_step20"); },
              ThrowsMessage<CheckpointError>(AllOf(HasSubstr("global_step20"), HasSubstr("global_step10"))));
  files.write_text(folder + "/latest", "../elsewhere\n");
  EXPECT_THAT([&] { Reader::open(files, folder); }, ThrowsMessage<CheckpointError>(HasSubstr("names no checkpoint")));
  files.remove_all(folder);
  EXPECT_THROW(Reader::open(files, folder, "a/b"), ConfigError);
}

}  // namespace
}  // namespace lockstep::checkpoint
