#include "base/files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "lockstep/error.h"

namespace lockstep::base {
namespace {

[[noreturn]] void fail(const std::string& path, const char* action, int error_number) {
  throw IoError(fmt::format("{}: cannot {}: {}", path, action, std::strerror(error_number)));
}

class Descriptor {
 public:
  Descriptor(std::string path, int flags, const char* action)
      : path_(std::move(path)), fd_(::open(path_.c_str(), flags | O_CLOEXEC, 0644)) {
    if (fd_ < 0) fail(path_, action, errno);
  }
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  [[nodiscard]] int get() const { return fd_; }
  [[nodiscard]] const std::string& path() const { return path_; }
  void close() {
    const int fd = std::exchange(fd_, -1);
    if (::close(fd) != 0) fail(path_, "close", errno);
  }

 private:
  std::string path_;
  int fd_;
};

class HostOutputFile final : public OutputFile {
 public:
  explicit HostOutputFile(const std::string& path) : file_(path, O_WRONLY | O_CREAT | O_TRUNC, "create") {}

  void write(std::span<const std::byte> bytes) override {
    while (!bytes.empty()) {
      const ssize_t written = ::write(file_.get(), bytes.data(), bytes.size());
      if (written < 0) {
        if (errno == EINTR) continue;
        fail(file_.path(), "write", errno);
      }
      bytes = bytes.subspan(static_cast<size_t>(written));
    }
  }

  void close() override {
    if (::fsync(file_.get()) != 0 && errno != EINVAL) fail(file_.path(), "flush", errno);
    file_.close();
  }

 private:
  Descriptor file_;
};

class HostMappedFile final : public MappedFile {
 public:
  explicit HostMappedFile(const std::string& path) {
    const Descriptor file(path, O_RDONLY, "open");
    struct stat status {};
    if (::fstat(file.get(), &status) != 0) fail(path, "read", errno);
    if (S_ISDIR(status.st_mode)) fail(path, "read", EISDIR);
    size_ = static_cast<size_t>(status.st_size);
    if (size_ == 0) return;
    address_ = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.get(), 0);
    if (address_ == MAP_FAILED) {
      address_ = nullptr;
      fail(path, "map", errno);
    }
  }
  ~HostMappedFile() override {
    if (address_ != nullptr) ::munmap(address_, size_);
  }
  HostMappedFile(const HostMappedFile&) = delete;
  HostMappedFile& operator=(const HostMappedFile&) = delete;

  [[nodiscard]] std::span<const std::byte> bytes() const override {
    return {static_cast<const std::byte*>(address_), size_};
  }

 private:
  void* address_ = nullptr;
  size_t size_ = 0;
};

class HostFileSystem final : public FileSystem {
 public:
  std::unique_ptr<OutputFile> create(const std::string& path) override {
    return std::make_unique<HostOutputFile>(path);
  }
  std::unique_ptr<MappedFile> map(const std::string& path) override { return std::make_unique<HostMappedFile>(path); }

  std::string read_text(const std::string& path) override {
    const Descriptor file(path, O_RDONLY, "open");
    std::string text;
    std::array<char, 1 << 16> buffer;
    while (true) {
      const ssize_t got = ::read(file.get(), buffer.data(), buffer.size());
      if (got < 0) {
        if (errno == EINTR) continue;
        fail(path, "read", errno);
      }
      if (got == 0) return text;
      text.append(buffer.data(), static_cast<size_t>(got));
    }
  }

  bool exists(const std::string& path) override {
    std::error_code error;
    return std::filesystem::exists(path, error);
  }

  void create_directories(const std::string& path) override {
    std::error_code error;
    std::filesystem::create_directories(path, error);
    if (error) fail(path, "create the directory", error.value());
  }

  void rename(const std::string& from, const std::string& to) override {
    std::error_code error;
    std::filesystem::rename(from, to, error);
    if (error) fail(from, fmt::format("rename to {}", to).c_str(), error.value());
  }

  void remove_all(const std::string& path) override {
    std::error_code error;
    std::filesystem::remove_all(path, error);
    if (error) fail(path, "remove", error.value());
  }

  void sync_directory(const std::string& path) override {
    const Descriptor directory(path, O_RDONLY | O_DIRECTORY, "open");
    if (::fsync(directory.get()) != 0 && errno != EINVAL) fail(path, "flush", errno);
  }
};

}  // namespace

void FileSystem::write_text(const std::string& path, std::string_view text) {
  const auto file = create(path);
  file->write(std::as_bytes(std::span(text)));
  file->close();
}

FileSystem& host_files() {
  static HostFileSystem files;
  return files;
}

}  // namespace lockstep::base
