#include "monitor/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/units.h"

namespace lockstep::monitor {
namespace {

constexpr double kRedrawMs = 100;  // Faster than anybody reads.
constexpr double kLongestSilenceMs = 60'000;
constexpr int64_t kLinesPerRun = 20;
constexpr int kLargestBar = 30;
constexpr int kSmallestBar = 5;
constexpr std::string_view kClearLine = "\r\x1b[K";

std::string number(double value, const char* format) {
  return std::isfinite(value) ? fmt::format(fmt::runtime(format), value) : "not finite";
}

}  // namespace

Progress::Progress(ProgressOptions options) : options_(std::move(options)) {}

void Progress::update(const StepRecord& record) {
  static constexpr double kNewest = 0.1;
  smoothed_step_ms_ =
      smoothed_step_ms_ == 0 ? record.step_ms : smoothed_step_ms_ + kNewest * (record.step_ms - smoothed_step_ms_);
  since_shown_ms_ += record.step_ms;
  hidden_ = record;
  if (options_.terminal) {
    if (!shown_.empty() && since_shown_ms_ < kRedrawMs && record.step < options_.total_steps) return;
    shown_ = bar_line(record);
    options_.write(fmt::format("{}{}", kClearLine, shown_));
  } else {
    if (!log_line_due(record)) return;
    options_.write(facts(record) + "\n");
  }
  since_shown_ms_ = 0;
  hidden_.reset();
}

void Progress::message(std::string_view text) {
  if (shown_.empty()) {
    options_.write(fmt::format("{}\n", text));
  } else {
    options_.write(fmt::format("{}{}\n{}", kClearLine, text, shown_));
  }
}

void Progress::finish() {
  if (!options_.terminal) return;
  if (hidden_) options_.write(fmt::format("{}{}", kClearLine, bar_line(*hidden_)));
  if (hidden_ || !shown_.empty()) options_.write("\n");
  hidden_.reset();
  shown_.clear();
}

bool Progress::log_line_due(const StepRecord& record) const {
  if (record.eval_loss || record.step == options_.first_step || record.step == options_.total_steps) return true;
  if (options_.steps_per_print) return *options_.steps_per_print > 0 && record.step % *options_.steps_per_print == 0;
  const int64_t steps = options_.total_steps - options_.first_step + 1;
  const int64_t every = std::max<int64_t>(1, (steps + kLinesPerRun - 1) / kLinesPerRun);
  return record.step % every == 0 || since_shown_ms_ >= kLongestSilenceMs;
}

std::string Progress::facts(const StepRecord& record) const {
  std::string text = fmt::format("step {}/{}  loss {}  lr {}", record.step, options_.total_steps,
                                 number(record.loss, "{:.4f}"), number(record.lr, "{:.3g}"));
  if (record.skipped) {
    text += "  skipped";
  } else {
    text += fmt::format("  norm {}", number(record.grad_norm, "{:.3f}"));
  }
  if (record.eval_loss) text += fmt::format("  eval loss {}", number(*record.eval_loss, "{:.4f}"));
  text += fmt::format("  {} tokens/s", base::format_count(std::llround(record.tokens_per_s)));
  if (record.step < options_.total_steps)
    text += fmt::format("  {} left", base::format_duration(remaining_seconds(record.step)));
  return text;
}

std::string Progress::bar_line(const StepRecord& record) const {
  const double done =
      options_.total_steps > 0
          ? std::clamp(static_cast<double>(record.step) / static_cast<double>(options_.total_steps), 0.0, 1.0)
          : 0.0;
  const std::string text = facts(record);
  std::string line = fmt::format("{:3.0f}% ", std::floor(done * 100));
  // The last column stays free: some terminals break the line there.
  const int room = options_.columns - 1 - static_cast<int>(line.size() + text.size()) - 3;
  if (room >= kSmallestBar) {
    const int width = std::min(room, kLargestBar);
    const int filled = static_cast<int>(done * width);
    line += fmt::format("[{}{}] ", std::string(static_cast<size_t>(filled), '#'),
                        std::string(static_cast<size_t>(width - filled), '.'));
  }
  line += text;
  line.resize(std::min(line.size(), static_cast<size_t>(std::max(1, options_.columns - 1))));
  return line;
}

double Progress::remaining_seconds(int64_t step) const {
  return static_cast<double>(options_.total_steps - step) * smoothed_step_ms_ / 1000;
}

}  // namespace lockstep::monitor
