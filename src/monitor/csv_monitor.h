#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "monitor/appended_file.h"
#include "monitor/metrics.h"

namespace lockstep::monitor {

/// A CSV file per scalar as DeepSpeed's csv_monitor lays them out: FOLDER/Train_Samples_lr.csv has the header "step,lr"
/// and a row "samples,value" per step.  Used by one thread.
class CsvMonitor {
 public:
  /// The file that a folder holds once a run wrote there.
  static std::string first_file(const std::string& folder);

  /// Opens every file for appending, making what is missing.  Throws IoError.
  explicit CsvMonitor(const std::string& folder);

  /// Removes rows above `samples` and rows that were never finished.  Throws IoError where a line is none of ours.
  void cut_back_to(int64_t samples);
  /// The rows are in the files when this returns.  Throws IoError.
  void append(const StepRecord& record);

 private:
  std::map<std::string, AppendedFile> files_;  // By the scalar's name.
};

}  // namespace lockstep::monitor
