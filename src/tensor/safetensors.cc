#include "tensor/safetensors.h"

#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <array>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "base/check.h"
#include "base/units.h"
#include "lockstep/error.h"

namespace lockstep::tensor {
namespace {

constexpr int64_t kLengthBytes = 8;
constexpr int64_t kLargestHeader = 100 * 1000 * 1000;  // The format's own limit.
constexpr int64_t kAlignment = 64;
constexpr int kDeepestHeader = 3;  // header, tensor, array of numbers

struct DtypeRow {
  const char* name;
  int64_t bytes;
  at::ScalarType type;  // Undefined where LibTorch has no such tensors, or not in every version.
};
constexpr std::array kDtypes{
    DtypeRow{"F64", 8, at::kDouble},
    DtypeRow{"F32", 4, at::kFloat},
    DtypeRow{"F16", 2, at::kHalf},
    DtypeRow{"BF16", 2, at::kBFloat16},
    DtypeRow{"I64", 8, at::kLong},
    DtypeRow{"I32", 4, at::kInt},
    DtypeRow{"I16", 2, at::kShort},
    DtypeRow{"I8", 1, at::kChar},
    DtypeRow{"U8", 1, at::kByte},
    DtypeRow{"BOOL", 1, at::kBool},
    DtypeRow{"U64", 8, at::ScalarType::Undefined},
    DtypeRow{"U32", 4, at::ScalarType::Undefined},
    DtypeRow{"U16", 2, at::ScalarType::Undefined},
    DtypeRow{"F8_E4M3", 1, at::ScalarType::Undefined},
    DtypeRow{"F8_E5M2", 1, at::ScalarType::Undefined},
    DtypeRow{"F8_E8M0", 1, at::ScalarType::Undefined},
};

const DtypeRow* find_dtype(const std::string& name) {
  for (const DtypeRow& row : kDtypes)
    if (name == row.name) return &row;
  return nullptr;
}

const char* dtype_name(at::ScalarType type) {
  for (const DtypeRow& row : kDtypes)
    if (row.type == type) return row.name;
  return nullptr;
}

/// Product of the dims times the element's size; -1 where a dim is negative or the product overflows.
int64_t byte_count(const DtypeRow& dtype, std::span<const int64_t> shape) {
  int64_t bytes = dtype.bytes;
  for (const int64_t dim : shape)
    if (dim < 0 || __builtin_mul_overflow(bytes, dim, &bytes)) return -1;
  return bytes;
}

[[noreturn]] void malformed(const std::string& path, const std::string& problem) {
  throw CheckpointError(
      fmt::format("{}: not a valid safetensors file: {}; fetch or write the file again", path, problem));
}

/// Integers only: the library would convert a fraction or a negative number in silence.
int64_t as_count(const nlohmann::json& json) {
  return json.is_number_unsigned() && json.get<uint64_t>() <= INT64_MAX ? json.get<int64_t>() : -1;
}

SafetensorsEntry read_entry(const std::string& path, const std::string& name, const nlohmann::json& json,
                            int64_t data_bytes) {
  const auto require = [&](bool holds, const char* expected) {
    if (!holds) malformed(path, fmt::format("tensor {}: expected {}", name, expected));
  };
  require(json.is_object(), "an object");
  for (const char* key : {"dtype", "shape", "data_offsets"})
    require(json.contains(key), "dtype, shape and data_offsets");
  SafetensorsEntry entry;
  require(json["dtype"].is_string(), "a name as dtype");
  entry.dtype = json["dtype"].get<std::string>();
  const DtypeRow* dtype = find_dtype(entry.dtype);
  if (dtype == nullptr) malformed(path, fmt::format("tensor {}: unknown dtype {}", name, entry.dtype));
  require(json["shape"].is_array(), "an array as shape");
  for (const auto& dim : json["shape"]) entry.shape.push_back(as_count(dim));
  const int64_t bytes = byte_count(*dtype, entry.shape);
  require(bytes >= 0, "sizes as shape");
  const auto& offsets = json["data_offsets"];
  require(offsets.is_array() && offsets.size() == 2, "two data_offsets");
  entry.begin = as_count(offsets[0]);
  entry.end = as_count(offsets[1]);
  require(entry.begin >= 0 && entry.end >= entry.begin, "data_offsets in order");
  if (entry.end - entry.begin != bytes)
    malformed(path, fmt::format("tensor {}: {} bytes by its shape, {} by its data_offsets", name, bytes,
                                entry.end - entry.begin));
  if (entry.end > data_bytes)
    malformed(path,
              fmt::format("tensor {}: ends at byte {} of {}: the file is cut short", name, entry.end, data_bytes));
  return entry;
}

/// Parses the header's text; refuses names that come twice, of which the library would keep the last in silence.
nlohmann::json parse_header(const std::string& path, std::string_view text) {
  std::set<std::string> names;
  const auto watch = [&](int depth, nlohmann::json::parse_event_t event, nlohmann::json& parsed) {
    if (depth > kDeepestHeader) malformed(path, "its header is nested too deeply");
    if (event == nlohmann::json::parse_event_t::key && depth == 1 && !names.insert(parsed.get<std::string>()).second)
      malformed(path, fmt::format("tensor {}: comes twice", parsed.get<std::string>()));
    return true;
  };
  nlohmann::json header;
  try {
    header = nlohmann::json::parse(text, watch);
  } catch (const nlohmann::json::exception& error) {
    malformed(path, fmt::format("its header is not JSON ({})", error.what()));
  }
  if (!header.is_object()) malformed(path, "its header is not a JSON object");
  return header;
}

/// Every byte of the data belongs to exactly one tensor, as the format demands.
void check_cover(const std::string& path, const std::map<std::string, SafetensorsEntry>& entries, int64_t data_bytes) {
  std::vector<std::pair<const std::string*, const SafetensorsEntry*>> in_order;
  for (const auto& [name, entry] : entries) in_order.emplace_back(&name, &entry);
  std::sort(in_order.begin(), in_order.end(), [](const auto& a, const auto& b) {
    return std::pair(a.second->begin, a.second->end) < std::pair(b.second->begin, b.second->end);
  });
  int64_t covered = 0;
  for (const auto& [name, entry] : in_order) {
    if (entry->begin < covered)
      malformed(path, fmt::format("tensor {}: begins at byte {}, inside the one before", *name, entry->begin));
    if (entry->begin > covered)
      malformed(path, fmt::format("tensor {}: begins at byte {}, {} after the one before ends", *name, entry->begin,
                                  entry->begin - covered));
    covered = entry->end;
  }
  if (covered != data_bytes) malformed(path, fmt::format("{} bytes after its last tensor", data_bytes - covered));
}

}  // namespace

SafetensorsFile::SafetensorsFile(base::FileSystem& files, const std::string& path)
    : path_(path), file_(files.map(path)) {
  const std::span<const std::byte> bytes = file_->bytes();
  const auto size = static_cast<int64_t>(bytes.size());
  if (size < kLengthBytes) malformed(path, fmt::format("it has {} bytes", size));
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, bytes.data(), kLengthBytes);
  if (header_bytes > kLargestHeader || kLengthBytes + static_cast<int64_t>(header_bytes) > size)
    malformed(path, fmt::format("its header claims {} bytes of the file's {}", header_bytes, size));
  data_begin_ = kLengthBytes + static_cast<int64_t>(header_bytes);

  const auto* text = reinterpret_cast<const char*>(bytes.data()) + kLengthBytes;
  const nlohmann::json header = parse_header(path, {text, static_cast<size_t>(header_bytes)});
  for (const auto& [name, json] : header.items()) {
    if (name != "__metadata__") {
      entries_.emplace(name, read_entry(path, name, json, size - data_begin_));
      continue;
    }
    if (!json.is_object()) malformed(path, "__metadata__: expected an object");
    for (const auto& [key, value] : json.items()) {
      if (!value.is_string()) malformed(path, fmt::format("__metadata__: {}: expected text", key));
      metadata_.emplace(key, value.get<std::string>());
    }
  }
  check_cover(path, entries_, size - data_begin_);
}

const SafetensorsEntry& SafetensorsFile::entry(const std::string& name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) throw CheckpointError(fmt::format("{}: has no tensor {}", path_, name));
  return found->second;
}

std::span<const std::byte> SafetensorsFile::bytes(const std::string& name) const {
  const SafetensorsEntry& found = entry(name);
  return file_->bytes().subspan(static_cast<size_t>(data_begin_ + found.begin),
                                static_cast<size_t>(found.end - found.begin));
}

at::Tensor SafetensorsFile::read(const std::string& name) const {
  const SafetensorsEntry& found = entry(name);
  const at::ScalarType type = find_dtype(found.dtype)->type;
  if (type == at::ScalarType::Undefined)
    throw CheckpointError(fmt::format("{}: tensor {}: dtype {} cannot be read as a tensor", path_, name, found.dtype));
  at::Tensor values = at::empty(found.shape, type);
  const std::span<const std::byte> from = bytes(name);
  if (!from.empty()) std::memcpy(values.mutable_data_ptr(), from.data(), from.size());
  return values;
}

at::Tensor SafetensorsFile::read_fp32(const std::string& name) const {
  const SafetensorsEntry& found = entry(name);
  const at::ScalarType type = find_dtype(found.dtype)->type;
  if (type == at::ScalarType::Undefined || !at::isFloatingType(type))
    throw CheckpointError(
        fmt::format("{}: tensor {}: dtype {}; expected one of F32, BF16, F16, F64", path_, name, found.dtype));
  return read(name).to(at::kFloat);
}

SafetensorsWriter::SafetensorsWriter(base::FileSystem& files, const std::string& path,
                                     const std::vector<SafetensorsItem>& items,
                                     const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  for (const SafetensorsItem& item : items) {
    const DtypeRow* dtype = find_dtype(item.dtype);
    LOCKSTEP_CHECK(dtype != nullptr);
    LOCKSTEP_CHECK(!header.contains(item.name));
    const int64_t bytes = byte_count(*dtype, item.shape);
    LOCKSTEP_CHECK(bytes >= 0);
    header[item.name] = {
        {"dtype", item.dtype}, {"shape", item.shape}, {"data_offsets", {bytes_left_, bytes_left_ + bytes}}};
    bytes_left_ += bytes;
  }
  std::string text = header.dump();
  const int64_t data_begin = base::round_up(static_cast<int64_t>(text.size()) + kLengthBytes, kAlignment);
  text.resize(static_cast<size_t>(data_begin - kLengthBytes), ' ');

  file_ = files.create(path);
  const uint64_t length = text.size();
  file_->write(std::as_bytes(std::span(&length, 1)));
  file_->write(std::as_bytes(std::span(text)));
}

void SafetensorsWriter::write(std::span<const std::byte> bytes) {
  LOCKSTEP_CHECK(static_cast<int64_t>(bytes.size()) <= bytes_left_);
  bytes_left_ -= static_cast<int64_t>(bytes.size());
  file_->write(bytes);
}

void SafetensorsWriter::close() {
  LOCKSTEP_CHECK_EQ(bytes_left_, 0);
  file_->close();
}

void write_safetensors(base::FileSystem& files, const std::string& path, const std::vector<NamedTensor>& tensors,
                       const std::map<std::string, std::string>& metadata) {
  std::vector<SafetensorsItem> items;
  for (const NamedTensor& tensor : tensors) {
    const char* dtype = dtype_name(tensor.values.scalar_type());
    LOCKSTEP_CHECK(dtype != nullptr && tensor.values.is_cpu() && tensor.values.is_contiguous());
    items.push_back({.name = tensor.name, .dtype = dtype, .shape = tensor.values.sizes().vec()});
  }
  SafetensorsWriter writer(files, path, items, metadata);
  for (const NamedTensor& tensor : tensors)
    writer.write({static_cast<const std::byte*>(tensor.values.const_data_ptr()), tensor.values.nbytes()});
  writer.close();
}

}  // namespace lockstep::tensor
