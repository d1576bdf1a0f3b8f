#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench_rows.h"

namespace lockstep {
struct World;
}

namespace lockstep::cli {

struct ZeroMemoryOptions {
  std::vector<int64_t> layers{2, 4, 6};  ///< Depths of one GPT-2; at least two, from 2 on, so that constants cancel.
  int64_t width = 256;
  std::string precision = "fp32";  ///< Or bf16, fp16.
};

/// What ZeRO's paper lets one rank hold for each parameter with Adam, in bytes: in fp32, or in 16 bits with fp32 master
/// weights.
struct ZeroState {
  int64_t stage = 0;
  bool half = false;

  [[nodiscard]] double limit(int ranks) const;
  [[nodiscard]] std::string formula() const;  ///< "8+8/N".
};

/// The least-squares slope of `bytes` over `parameters`.
double bytes_per_parameter(const std::vector<int64_t>& parameters, const std::vector<int64_t>& bytes);

/// Trains models that differ only in depth as one rank of `world`, each stage in turn, and measures what tensors hold
/// for each further parameter on the rank that holds most; then, above one rank, the building of a model of 40 M
/// parameters at stage 3 and its steps.  A row for each.  Every rank calls it, in a process of its own: the allocator
/// counts for the process.  Throws ConfigError, CommError.
std::vector<BenchRow> measure_zero_memory(const World& world, const ZeroMemoryOptions& options);

/// Tables for people.
std::string zero_memory_tables(const std::vector<BenchRow>& rows);

}  // namespace lockstep::cli
