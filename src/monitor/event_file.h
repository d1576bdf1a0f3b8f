#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "monitor/appended_file.h"
#include "monitor/metrics.h"
#include "monitor/scalars.h"

namespace lockstep::monitor {

/// CRC-32C (Castagnoli).
uint32_t crc32c(std::string_view bytes);

/// A TFRecord: the data's length (8 bytes), a masked CRC-32C of the length, the data, a masked CRC-32C of the data.
std::string tf_record(std::string_view data);

/// A serialized tensorflow.Event that carries the scalars, in the order of its field numbers.
std::string scalar_event(double wall_time_s, int64_t step, const std::vector<Scalar>& scalars);

/// TensorBoard's event file: a record that names the version, then one a step with its scalars, at step = samples.
/// Its name is always the same, so that a resumed run finds it.  Used by one thread.
class EventFile {
 public:
  /// FOLDER/events.out.tfevents.lockstep.
  static std::string path_in(const std::string& folder);

  /// Opens for appending; a new file gets its first record.  wall_time_s: seconds since 1970.  Throws IoError.
  EventFile(const std::string& folder, double wall_time_s);

  /// Removes records above `samples` and a last one that was never finished.  Throws IoError, changing nothing, where a
  /// record's checksum is wrong.
  void cut_back_to(int64_t samples);
  /// The record is in the file when this returns.  Throws IoError.
  void append(const StepRecord& record, double wall_time_s);

 private:
  AppendedFile file_;
};

}  // namespace lockstep::monitor
