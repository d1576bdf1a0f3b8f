#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep::monitor {

/// A file that grows at its end while a run goes on.  Throws IoError naming the file.  Used by one thread.
class AppendedFile {
 public:
  /// Opens for appending; makes the file and its parent folders where there are none.
  explicit AppendedFile(std::string path);
  ~AppendedFile();
  AppendedFile(const AppendedFile&) = delete;
  AppendedFile& operator=(const AppendedFile&) = delete;

  /// The bytes are in the file, for every reader, when this returns.
  void append(std::string_view bytes);
  [[nodiscard]] std::string read() const;
  /// Keeps the first `bytes`.
  void cut(size_t bytes);
  /// Keeps the whole lines up to the first whose position is above `last`.  position_of: absent where a line is none of
  /// ours, which throws `line N` and the advice, changing nothing.
  void cut_lines(int64_t last, const std::function<std::optional<int64_t>(std::string_view line)>& position_of,
                 std::string_view advice);

  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  [[noreturn]] void fail(const char* action) const;

  const std::string path_;
  int fd_ = -1;
};

}  // namespace lockstep::monitor
