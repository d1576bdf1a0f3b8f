#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/files.h"

namespace lockstep::checkpoint {

/// XXH3, 64 bits.
uint64_t xxh3(std::span<const std::byte> bytes);

/// A file system that passes everything on and remembers size and hash of the last file that was closed, so that a
/// file is hashed while it is written.  Used by one thread; `files` must outlive it.
class HashingFiles final : public base::FileSystem {
 public:
  explicit HashingFiles(base::FileSystem& files) : files_(files) {}

  std::unique_ptr<base::OutputFile> create(const std::string& path) override;
  std::unique_ptr<base::MappedFile> map(const std::string& path) override { return files_.map(path); }
  std::string read_text(const std::string& path) override { return files_.read_text(path); }
  bool exists(const std::string& path) override { return files_.exists(path); }
  void create_directories(const std::string& path) override { files_.create_directories(path); }
  void rename(const std::string& from, const std::string& to) override { files_.rename(from, to); }
  void remove_all(const std::string& path) override { files_.remove_all(path); }
  void sync_directory(const std::string& path) override { files_.sync_directory(path); }

  [[nodiscard]] int64_t last_bytes() const { return last_bytes_; }
  [[nodiscard]] uint64_t last_xxh3() const { return last_xxh3_; }

 private:
  class File;

  base::FileSystem& files_;
  int64_t last_bytes_ = 0;
  uint64_t last_xxh3_ = 0;
};

}  // namespace lockstep::checkpoint
