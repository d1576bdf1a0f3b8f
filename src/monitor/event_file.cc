#include "monitor/event_file.h"

#include <fmt/format.h>

#include <array>
#include <bit>

#include "lockstep/error.h"

namespace lockstep::monitor {
namespace {

constexpr size_t kLengthBytes = 8;
constexpr size_t kCrcBytes = 4;
constexpr size_t kHeadBytes = kLengthBytes + kCrcBytes;

constexpr std::array<uint32_t, 256> crc_table() {
  constexpr uint32_t kCastagnoli = 0x82f63b78;  // Bit-reversed.
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t rest = byte;
    for (int bit = 0; bit < 8; ++bit) rest = (rest >> 1) ^ ((rest & 1) != 0 ? kCastagnoli : 0);
    table[byte] = rest;
  }
  return table;
}

/// A CRC beside the data that it covers: masked, since a CRC of data that holds its own CRC says little.
uint32_t masked_crc(std::string_view bytes) { return std::rotr(crc32c(bytes), 15) + 0xa282ead8; }

void put_little_endian(std::string& out, uint64_t value, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) out.push_back(static_cast<char>(value >> (8 * i)));
}

uint64_t little_endian(std::string_view bytes) {
  uint64_t value = 0;
  for (size_t i = bytes.size(); i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

// Protocol buffers: a field is its number and kind in one byte, then its value.
enum WireKind : uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };
constexpr char field(int number, WireKind kind) { return static_cast<char>(number << 3 | kind); }

// tensorflow.Event: wall_time = 1, step = 2, file_version = 3, summary = 5.
constexpr char kWallTime = field(1, kFixed64);
constexpr char kStep = field(2, kVarint);
constexpr char kFileVersion = field(3, kBytes);
constexpr char kSummary = field(5, kBytes);
// tensorflow.Summary: value = 1; of a value: tag = 1, simple_value = 2.
constexpr char kValue = field(1, kBytes);
constexpr char kTag = field(1, kBytes);
constexpr char kSimpleValue = field(2, kFixed32);

void put_varint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
}

void put_bytes(std::string& out, char field_key, std::string_view bytes) {
  out.push_back(field_key);
  put_varint(out, bytes.size());
  out += bytes;
}

std::string event_at(double wall_time_s) {
  std::string event{kWallTime};
  put_little_endian(event, std::bit_cast<uint64_t>(wall_time_s), 8);
  return event;
}

/// Of an event that we wrote: the step follows the wall time; 0 where there is none.
int64_t step_of(std::string_view event) {
  size_t at = 1 + sizeof(double);
  if (at >= event.size() || event[at] != kStep) return 0;
  uint64_t step = 0;
  for (int shift = 0; ++at < event.size() && shift < 64; shift += 7) {
    const auto byte = static_cast<unsigned char>(event[at]);
    step |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) break;
  }
  return static_cast<int64_t>(step);
}

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  static constexpr std::array<uint32_t, 256> kTable = crc_table();
  uint32_t crc = ~uint32_t{0};
  for (const char byte : bytes) crc = kTable[(crc ^ static_cast<unsigned char>(byte)) & 0xff] ^ (crc >> 8);
  return ~crc;
}

std::string tf_record(std::string_view data) {
  std::string record;
  put_little_endian(record, data.size(), kLengthBytes);
  put_little_endian(record, masked_crc(record), kCrcBytes);
  record += data;
  put_little_endian(record, masked_crc(data), kCrcBytes);
  return record;
}

std::string scalar_event(double wall_time_s, int64_t step, const std::vector<Scalar>& scalars) {
  std::string event = event_at(wall_time_s);
  event.push_back(kStep);
  put_varint(event, static_cast<uint64_t>(step));
  std::string summary;
  for (const Scalar& scalar : scalars) {
    std::string value;
    put_bytes(value, kTag, scalar.name);
    value.push_back(kSimpleValue);
    put_little_endian(value, std::bit_cast<uint32_t>(static_cast<float>(scalar.value)), sizeof(float));
    put_bytes(summary, kValue, value);
  }
  put_bytes(event, kSummary, summary);
  return event;
}

std::string EventFile::path_in(const std::string& folder) { return folder + "/events.out.tfevents.lockstep"; }

EventFile::EventFile(const std::string& folder, double wall_time_s) : file_(path_in(folder)) {
  std::string event = event_at(wall_time_s);
  put_bytes(event, kFileVersion, "brain.Event:2");
  const std::string first = tf_record(event);
  if (file_.read().size() >= first.size()) return;
  file_.cut(0);  // A run was killed inside its first record.
  file_.append(first);
}

void EventFile::cut_back_to(int64_t samples) {
  const std::string text = file_.read();
  size_t keep = 0;
  bool keeping = true;
  const auto crc_matches = [&](size_t begin, size_t bytes) {
    const std::string_view part = std::string_view(text).substr(begin, bytes + kCrcBytes);
    return little_endian(part.substr(bytes)) == masked_crc(part.substr(0, bytes));
  };
  for (size_t begin = 0; text.size() - begin >= kHeadBytes;) {
    const bool head = crc_matches(begin, kLengthBytes);
    const uint64_t length = little_endian(std::string_view(text).substr(begin, kLengthBytes));
    const size_t data = begin + kHeadBytes;
    if (head && (length > text.size() - data || text.size() - data - length < kCrcBytes)) break;  // Never finished.
    if (!head || !crc_matches(data, length))
      throw IoError(
          fmt::format("{}: the record at byte {} is damaged; give another tensorboard.job_name, or remove the file",
                      file_.path(), begin));
    keeping = keeping && step_of(std::string_view(text).substr(data, length)) <= samples;
    begin = data + length + kCrcBytes;
    if (keeping) keep = begin;
  }
  file_.cut(keep);
}

void EventFile::append(const StepRecord& record, double wall_time_s) {
  file_.append(tf_record(scalar_event(wall_time_s, record.samples, scalars(record))));
}

}  // namespace lockstep::monitor
