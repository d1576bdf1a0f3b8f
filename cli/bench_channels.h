#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace lockstep::cli {

struct DiskPass {
  int64_t block_bytes = 1 << 20;
  int depth = 1;  ///< Requests under way at once, by a thread each.
  int repeats = 1;
};

/// A file without a name in `folder`, read and written past the page cache from front to back.  It vanishes with this
/// object or the process.
class DiskProbe {
 public:
  /// Fills the file once, untimed.  Throws IoError: no such folder, no room, no direct I/O there.
  DiskProbe(const std::string& folder, int64_t file_bytes);
  ~DiskProbe();
  DiskProbe(const DiskProbe&) = delete;
  DiskProbe& operator=(const DiskProbe&) = delete;

  /// Bytes per second, best of the repeats.  A write ends when the device says that the bytes are safe.
  double read(const DiskPass& pass);
  double write(const DiskPass& pass);

 private:
  double run(const DiskPass& pass, bool writing);

  const std::string folder_;
  const int64_t file_bytes_;
  int file_ = -1;
};

/// Seconds for a flag to go to another core's thread and back through shared memory, best of `batches` of 1,000.
double flag_round_trip_seconds(int batches);

/// Bytes per second from one thread to another over TCP on this host, best of `repeats`.  Throws IoError.
double loopback_bytes_per_second(int64_t bytes, int repeats);

}  // namespace lockstep::cli
