#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench_rows.h"

namespace lockstep::cli {

struct RoofOptions {
  std::vector<int> threads{1, 2};
  std::string folder = ".";  ///< Where the disk is measured.
  bool quick = false;        ///< Smaller arrays and fewer repeats: under ten seconds on an idle host.
};

/// What this host can do at most: memory, arithmetic, matrix products, disk, flags, loopback.
/// "frac" is a rate over the largest of its class at the same number of threads.  Throws IoError.
std::vector<BenchRow> measure_roof(const RoofOptions& options);

/// Floating-point operations per second of an n x n x n product through the engine's LibTorch, best of `repeats` after
/// one that is not counted, with the threads that LibTorch is set to.
enum class ProductType { fp32, bf16 };
double matrix_product_rate(ProductType type, int64_t n, int repeats);

}  // namespace lockstep::cli
