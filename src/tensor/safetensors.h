#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/files.h"

namespace lockstep::tensor {

/// One tensor's entry in a safetensors file.
struct SafetensorsEntry {
  std::string dtype{};  ///< "F32", "BF16", "F16", "F64", "I64", ...
  std::vector<int64_t> shape{};
  int64_t begin = 0;  ///< Bytes from the start of the data section.
  int64_t end = 0;
};

/// A safetensors file, mapped; its header is checked in full, so that no later call can read outside the data.
/// Thread-safe once constructed.
class SafetensorsFile {
 public:
  /// files: must outlive this.  Throws IoError, and CheckpointError naming the file and the tensor for a malformed
  /// file.
  SafetensorsFile(base::FileSystem& files, const std::string& path);

  [[nodiscard]] const std::map<std::string, SafetensorsEntry>& entries() const { return entries_; }
  [[nodiscard]] const std::map<std::string, std::string>& metadata() const { return metadata_; }
  [[nodiscard]] const std::string& path() const { return path_; }
  /// The bytes of a tensor, in the file's own dtype.  They may start at any address.  Throws CheckpointError.
  [[nodiscard]] std::span<const std::byte> bytes(const std::string& name) const;
  /// A copy of a tensor in its own dtype.  Throws CheckpointError: no such tensor, a dtype that LibTorch lacks.
  [[nodiscard]] at::Tensor read(const std::string& name) const;
  /// A copy in fp32 of a floating-point tensor.  Throws CheckpointError.
  [[nodiscard]] at::Tensor read_fp32(const std::string& name) const;

 private:
  [[nodiscard]] const SafetensorsEntry& entry(const std::string& name) const;

  std::string path_;
  std::unique_ptr<base::MappedFile> file_;
  std::map<std::string, SafetensorsEntry> entries_;
  std::map<std::string, std::string> metadata_;
  int64_t data_begin_ = 0;
};

/// A tensor to come in a file being written.
struct SafetensorsItem {
  std::string name{};
  std::string dtype = "F32";
  std::vector<int64_t> shape{};
};

/// Writes a safetensors file front to back: the header at once, then the tensors' bytes in the items' order, in pieces
/// of any size, so that no whole tensor need be in memory.  The data begins at a multiple of 64 bytes.  Used by one
/// thread.  Without close() the file is incomplete.
class SafetensorsWriter {
 public:
  /// Throws IoError.
  SafetensorsWriter(base::FileSystem& files, const std::string& path, const std::vector<SafetensorsItem>& items,
                    const std::map<std::string, std::string>& metadata = {});

  /// Requires: no more bytes in all than the items have.  Throws IoError.
  void write(std::span<const std::byte> bytes);
  /// Flushes to the device.  Requires: every byte was written.  Throws IoError.
  void close();

 private:
  std::unique_ptr<base::OutputFile> file_;
  int64_t bytes_left_ = 0;
};

/// One tensor to write: contiguous, on the CPU.
struct NamedTensor {
  std::string name{};
  at::Tensor values{};
};

/// Writes a whole safetensors file in the given order, flushed to the device.  Throws IoError.
void write_safetensors(base::FileSystem& files, const std::string& path, const std::vector<NamedTensor>& tensors,
                       const std::map<std::string, std::string>& metadata = {});

}  // namespace lockstep::tensor
