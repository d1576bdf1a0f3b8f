#include "monitor/event_file.h"

#include <gmock/gmock.h>

#include "lockstep/error.h"
#include "monitor/run_folder.h"

namespace lockstep::monitor {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

std::string from_hex(std::string_view hex) {
  std::string bytes;
  for (size_t i = 0; i < hex.size(); i += 2)
    bytes.push_back(static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16)));
  return bytes;
}

TEST(Crc32cTest, KnownAnswers) {  // RFC 3720, B.4, and the check value of the CRC's catalogue.
  EXPECT_EQ(crc32c(""), 0U);
  EXPECT_EQ(crc32c("123456789"), 0xe3069283U);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aaU);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43U);
}

// Written by tensorboard 2.21: its RecordWriter, and Event.SerializeToString().
const std::string kVersionRecord =
    from_hex("1800000000000000a37f4b220900001040fc54d9411a0d627261696e2e4576656e743a32338d2fe9");
const std::string kScalarRecord = from_hex(
    "31000000000000009d8383e90900006040fc54d94110ac022a230a170a10547261696e2f53616d706c65732f6c72150000003f0a080a016115"
    "000000c08be55470");

TEST(EventBytesTest, AScalarRecordIsTensorBoards) {
  EXPECT_EQ(tf_record(scalar_event(1700000001.5, 300, {{"Train/Samples/lr", 0.5}, {"a", -2}})), kScalarRecord);
}

class EventFileTest : public RunFolderTest {
 protected:
  const std::string path_ = EventFile::path_in(folder_);
};

TEST_F(EventFileTest, StartsWithTheVersionAndAppendsARecordAStep) {
  EventFile file(folder_, 1700000000.25);
  EXPECT_EQ(text(path_), kVersionRecord);
  const StepRecord record{.loss = 2.5, .eval_loss = 3, .samples = 1 << 20};
  file.append(record, 1700000001.5);
  EXPECT_EQ(text(path_), kVersionRecord + tf_record(scalar_event(1700000001.5, 1 << 20, scalars(record))));
}

TEST_F(EventFileTest, AResumedRunHasEveryRecordOnce) {
  std::vector<std::string> after_step;
  EventFile first(folder_, 1700000000.25);
  for (int64_t step = 0; step < 5; ++step) {
    first.append({.loss = 1, .samples = (step + 1) * 100}, 1);
    after_step.push_back(text(path_));
  }
  add(path_, kScalarRecord.substr(0, 30));  // Killed inside a record.
  EventFile second(folder_, 9);
  second.cut_back_to(1000);
  EXPECT_EQ(text(path_), after_step[4]);
  second.cut_back_to(350);
  EXPECT_EQ(text(path_), after_step[2]);
  second.append({.loss = 1, .samples = 400}, 1);
  EXPECT_EQ(text(path_), after_step[3]);
  add(path_, kScalarRecord.substr(0, 7));  // Killed inside a record's head.
  second.cut_back_to(0);
  EXPECT_EQ(text(path_), kVersionRecord);
}

TEST_F(EventFileTest, AFirstRecordThatAKillLeftUnfinishedIsWrittenAgain) {
  add(path_, kVersionRecord.substr(0, 20));
  const EventFile file(folder_, 1700000000.25);
  EXPECT_EQ(text(path_), kVersionRecord);
}

TEST_F(EventFileTest, LeavesADamagedFileAlone) {
  EventFile file(folder_, 1700000000.25);
  for (const size_t flipped : {3U, 20U}) {  // In the length, in the data.
    std::string bytes = kScalarRecord;
    bytes[flipped] ^= 1;
    add(path_, bytes + kScalarRecord);
    const std::string before = text(path_);
    EXPECT_THAT([&] { file.cut_back_to(0); },
                ThrowsMessage<IoError>(AllOf(HasSubstr(path_), HasSubstr("byte 40"), HasSubstr("tensorboard"))));
    EXPECT_EQ(text(path_), before);
    std::filesystem::resize_file(path_, kVersionRecord.size());
  }
}

}  // namespace
}  // namespace lockstep::monitor
