#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench_rows.h"

namespace lockstep::cli {

struct ZeroTrafficOptions {
  std::vector<int> ranks{2, 4};
  std::vector<int64_t> buckets{65'536, 1'000'000, 500'000'000};  ///< Elements; 1,000,000 is the default of a run.
  int64_t layers = 6;                                            ///< Of a GPT-2, and its width.
  int64_t width = 256;
  int64_t small_layers = 200;  ///< Of another one, 64 wide, whose layers share buckets.
};

/// Trains as threads in place of processes, each stage in turn, and reads the communicator's counters over one step:
/// bytes sent against what a plain all-reduce of all gradients sends, and collectives against what the bytes need.
/// A row for each case.  Throws ConfigError.
std::vector<BenchRow> measure_zero_traffic(const ZeroTrafficOptions& options);

/// A table for people.
std::string zero_traffic_table(const std::vector<BenchRow>& rows);

}  // namespace lockstep::cli
