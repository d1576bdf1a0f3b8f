#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench_rows.h"

namespace lockstep::cli {

struct TrainBenchOptions {
  std::string model = "gpt2-nano";  ///< A preset or folder; the fields below up to vocabulary change gpt2-nano only.
  int64_t layers = 6;
  int64_t width = 384;
  int64_t heads = 6;
  int64_t vocabulary = 256;
  int64_t sequence_length = 0;  ///< 0: the model's maximum; gpt2-nano gets as many positions.
  int64_t micro_batch = 8;
  int64_t accumulation = 1;
  int64_t steps = 20;
  std::string precision = "fp32";  ///< Or bf16, fp16.
  std::string products = "auto";   ///< lockstep.half_products.
  int64_t warm_up = 4;             ///< Steps before the clock starts.
  int threads = 0;                 ///< 0: one for each core.
  bool quick = false;              ///< A smaller matrix product as the roof.
};

/// Trains on random tokens with AdamW and clipping, one rank, and measures the time of a step and what it does beside
/// its matrix products.  Throws ConfigError.
std::vector<BenchRow> measure_training(const TrainBenchOptions& options);

}  // namespace lockstep::cli
