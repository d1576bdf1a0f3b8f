#include "monitor/metrics.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/files.h"
#include "base/units.h"
#include "lockstep/error.h"

namespace lockstep::monitor {
namespace {

std::string as_float(double value) { return base::shortest(static_cast<float>(value)); }

/// Absent where the line is no metrics record.
std::optional<int64_t> step_of(std::string_view line) {
  const auto record = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!record.is_object()) return std::nullopt;
  const auto step = record.find("step");
  if (step == record.end() || !step->is_number_integer()) return std::nullopt;
  return step->get<int64_t>();
}

}  // namespace

std::string to_json(const StepRecord& record) {
  std::string line = fmt::format(
      R"({{"step": {}, "loss": {}, "lr": {}, "grad_norm": {}, "loss_scale": {}, "skipped": {}, "tokens": {}, )"
      R"("tokens_per_s": {}, "step_ms": {}, "peak_bytes": {}, "peak_rss_bytes": {})",
      record.step, as_float(record.loss), base::shortest(record.lr), as_float(record.grad_norm),
      base::shortest(record.loss_scale), record.skipped, record.tokens, as_float(record.tokens_per_s),
      as_float(record.step_ms), record.peak_bytes, record.peak_rss_bytes);
  if (record.eval_loss) line += fmt::format(R"(, "eval_loss": {})", as_float(*record.eval_loss));
  return line + "}";
}

MetricsFile::MetricsFile(std::string path) : path_(std::move(path)) {
  const auto folder = std::filesystem::path(path_).parent_path();
  if (!folder.empty()) base::host_files().create_directories(folder);
  fd_ = ::open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
  if (fd_ < 0) fail("open");
}

MetricsFile::~MetricsFile() { ::close(fd_); }

void MetricsFile::cut_back_to(int64_t step) {
  const std::string text = base::host_files().read_text(path_);
  size_t keep = 0;
  bool keeping = true;
  int64_t number = 1;
  for (size_t begin = 0; begin < text.size(); ++number) {
    const size_t end = text.find('\n', begin);
    if (end == std::string::npos) break;
    const auto line_step = step_of(std::string_view(text).substr(begin, end - begin));
    if (!line_step)
      throw IoError(fmt::format(
          "{}: line {} is no metrics record; name another file with --metrics, or remove this one", path_, number));
    begin = end + 1;
    keeping = keeping && *line_step <= step;
    if (keeping) keep = begin;
  }
  if (::ftruncate(fd_, static_cast<off_t>(keep)) != 0) fail("cut");
}

void MetricsFile::append(const StepRecord& record) {
  const std::string line = to_json(record) + "\n";
  std::string_view rest = line;
  while (!rest.empty()) {
    const ssize_t written = ::write(fd_, rest.data(), rest.size());
    if (written >= 0) {
      rest.remove_prefix(static_cast<size_t>(written));
    } else if (errno != EINTR) {
      fail("write");
    }
  }
}

void MetricsFile::fail(const char* action) const {
  throw IoError(fmt::format("{}: cannot {}: {}", path_, action, std::strerror(errno)));
}

}  // namespace lockstep::monitor
