#include "monitor/appended_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/files.h"
#include "lockstep/error.h"

namespace lockstep::monitor {

AppendedFile::AppendedFile(std::string path) : path_(std::move(path)) {
  const auto folder = std::filesystem::path(path_).parent_path();
  if (!folder.empty()) base::host_files().create_directories(folder);
  fd_ = ::open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
  if (fd_ < 0) fail("open");
}

AppendedFile::~AppendedFile() { ::close(fd_); }

void AppendedFile::append(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd_, bytes.data(), bytes.size());
    if (written >= 0) {
      bytes.remove_prefix(static_cast<size_t>(written));
    } else if (errno != EINTR) {
      fail("write");
    }
  }
}

std::string AppendedFile::read() const { return base::host_files().read_text(path_); }

void AppendedFile::cut(size_t bytes) {
  if (::ftruncate(fd_, static_cast<off_t>(bytes)) != 0) fail("cut");
}

void AppendedFile::cut_lines(int64_t last,
                             const std::function<std::optional<int64_t>(std::string_view line)>& position_of,
                             std::string_view advice) {
  const std::string text = read();
  size_t keep = 0;
  bool keeping = true;
  int64_t number = 1;
  for (size_t begin = 0; begin < text.size(); ++number) {
    const size_t end = text.find('\n', begin);
    if (end == std::string::npos) break;
    const auto position = position_of(std::string_view(text).substr(begin, end - begin));
    if (!position) throw IoError(fmt::format("{}: line {} {}", path_, number, advice));
    begin = end + 1;
    keeping = keeping && *position <= last;
    if (keeping) keep = begin;
  }
  cut(keep);
}

void AppendedFile::fail(const char* action) const {
  throw IoError(fmt::format("{}: cannot {}: {}", path_, action, std::strerror(errno)));
}

}  // namespace lockstep::monitor
