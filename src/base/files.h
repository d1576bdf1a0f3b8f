#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace lockstep::base {

/// A file being written front to back.  Throws IoError naming the file and the system's reason.
class OutputFile {
 public:
  virtual ~OutputFile() = default;
  virtual void write(std::span<const std::byte> bytes) = 0;
  /// Flushes to the device and closes.  A destructor without it leaves an incomplete file.
  virtual void close() = 0;
};

/// A read-only view of a whole file.
class MappedFile {
 public:
  virtual ~MappedFile() = default;
  [[nodiscard]] virtual std::span<const std::byte> bytes() const = 0;
};

/// The operating system's files as an argument, so that tests can lose writes and fill disks.
/// Thread-safe.  All functions throw IoError naming the path and the system's reason.
class FileSystem {
 public:
  virtual ~FileSystem() = default;
  [[nodiscard]] virtual std::unique_ptr<OutputFile> create(const std::string& path) = 0;
  [[nodiscard]] virtual std::unique_ptr<MappedFile> map(const std::string& path) = 0;
  [[nodiscard]] virtual std::string read_text(const std::string& path) = 0;
  [[nodiscard]] virtual bool exists(const std::string& path) = 0;
  virtual void create_directories(const std::string& path) = 0;
  virtual void rename(const std::string& from, const std::string& to) = 0;
  virtual void remove_all(const std::string& path) = 0;
  /// Makes renames and new entries of a directory durable.
  virtual void sync_directory(const std::string& path) = 0;

  /// create, write, close.
  void write_text(const std::string& path, std::string_view text);
};

/// The host's own file system.
FileSystem& host_files();

}  // namespace lockstep::base
