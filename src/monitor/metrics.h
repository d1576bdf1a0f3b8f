#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "monitor/appended_file.h"

namespace lockstep::monitor {

/// One optimizer step, as the metrics file has it.
struct StepRecord {
  int64_t step = 0;  ///< From 1; skipped steps count.
  double loss = 0;
  double lr = 0;
  double grad_norm = 0;
  double loss_scale = 1;
  bool skipped = false;
  int64_t tokens = 0;  ///< Cumulative.
  double tokens_per_s = 0;
  double step_ms = 0;
  int64_t peak_bytes = 0;
  int64_t peak_rss_bytes = 0;
  std::optional<double> eval_loss{};  ///< Where an evaluation ran after the step.
  int64_t samples = 0;                ///< Cumulative: where scalars stand.  Not in the metrics file.
};

/// One JSON object, without a line end.  Numbers are the shortest text that reads back to the same value: a double for
/// lr and loss_scale, a float for the others; non-finite ones are null.
std::string to_json(const StepRecord& record);

/// A file of one such line per step, written as the steps come.  Used by one thread.
class MetricsFile {
 public:
  /// Opens for appending; makes the file and its parent folders where there are none.  Throws IoError.
  explicit MetricsFile(std::string path);

  /// Removes what comes after step `step`, and a last line that was never finished: after a resume the steps since the
  /// checkpoint come again.  0 empties the file.  Throws IoError, changing nothing, where a line is no such record.
  void cut_back_to(int64_t step);
  /// The line is in the file, for every reader, when this returns.  Throws IoError.
  void append(const StepRecord& record);

  [[nodiscard]] const std::string& path() const { return file_.path(); }

 private:
  AppendedFile file_;
};

}  // namespace lockstep::monitor
