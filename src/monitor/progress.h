#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "monitor/metrics.h"

namespace lockstep::monitor {

struct ProgressOptions {
  int64_t total_steps = 0;
  int64_t first_step = 1;  ///< The first step of this run: after a resume, the checkpoint's and one.
  bool terminal = false;   ///< One line that changes in place; else lines for a log.
  int columns = 80;        ///< Of the terminal.
  std::optional<int64_t>
      steps_per_print{};  ///< For a log; absent: about twenty lines a run, and one a minute at least.
  std::function<void(std::string_view)> write{};
};

/// Shows how far a run is.  It reads no clock: time is the sum of the records' step_ms.  Used by one thread.
class Progress {
 public:
  explicit Progress(ProgressOptions options);

  void update(const StepRecord& record);
  /// A line of its own for something else, without tearing the bar.
  void message(std::string_view text);
  /// Leaves the last state of the bar on the screen and ends its line.
  void finish();

 private:
  [[nodiscard]] bool log_line_due(const StepRecord& record) const;
  [[nodiscard]] std::string facts(const StepRecord& record) const;
  [[nodiscard]] std::string bar_line(const StepRecord& record) const;
  [[nodiscard]] double remaining_seconds(int64_t step) const;

  const ProgressOptions options_;
  std::string shown_{};          // The bar on the screen; empty: none.
  double smoothed_step_ms_ = 0;  // Recent steps weigh more: evaluation and start-up pass.
  double since_shown_ms_ = 0;
  std::optional<StepRecord> hidden_{};  // The newest record, where it was not shown.
};

}  // namespace lockstep::monitor
