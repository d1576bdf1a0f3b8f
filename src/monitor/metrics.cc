#include "monitor/metrics.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string_view>

#include "base/units.h"

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

MetricsFile::MetricsFile(std::string path) : file_(std::move(path)) {}

void MetricsFile::cut_back_to(int64_t step) {
  file_.cut_lines(step, step_of, "is no metrics record; name another file with --metrics, or remove this one");
}

void MetricsFile::append(const StepRecord& record) { file_.append(to_json(record) + "\n"); }

}  // namespace lockstep::monitor
