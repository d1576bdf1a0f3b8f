#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench_rows.h"

namespace lockstep::cli {

struct GemmBenchOptions {
  std::vector<std::string> types{"bf16", "fp16"};
  int64_t tokens = 2048;  ///< Of a micro-batch.
  int64_t width = 768;
  int64_t classes = 8192;
  int threads = 0;  ///< 0: one for each core.
  int repeats = 7;  ///< Of each product; the fastest counts.
};

/// The matrix products of a transformer's linear layers in 16-bit floats: by LibTorch natively, and by blocks widened
/// to fp32; beside them the same in fp32, and the rate of a large square product of the type as the roof.  A row for
/// each product, with what the table of tensor/half_products.h chooses and what was faster here.
std::vector<BenchRow> measure_gemm(const GemmBenchOptions& options);

/// A table for people.
std::string gemm_table(const std::vector<BenchRow>& rows);

}  // namespace lockstep::cli
