#pragma once

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <vector>

#include "tensor/elements.h"

namespace at {
class Tensor;
}

namespace lockstep::model::ops {

/// Kernels that sum over rows do so in runs of this many, so that the sums do not depend on the number of threads.
inline constexpr int64_t kRunRows = 256;

constexpr int64_t run_count(int64_t rows) { return (rows + kRunRows - 1) / kRunRows; }

/// Within a run the kernels add up runs of this many: given that many at a time they sum as they would over the whole,
/// and fp32 copies of 16-bit rows stay in the cache.
inline constexpr int64_t kStripRows = 64;

/// Calls body(run, first_row, rows) for every strip of every run, in order within a run; runs are spread over
/// LibTorch's threads.
template <class Body>
void for_each_strip(int64_t rows, const Body& body) {
  at::parallel_for(0, run_count(rows), 1, [&](int64_t begin, int64_t end) {
    for (int64_t run = begin; run < end; ++run) {
      const int64_t last = std::min((run + 1) * kRunRows, rows);
      for (int64_t first = run * kRunRows; first < last; first += kStripRows)
        body(run, first, std::min(kStripRows, last - first));
    }
  });
}

/// The sum over rows of something with `columns` values a row: each run of rows adds into row(run), and total() adds
/// the runs up in order.
class RunSums {
 public:
  RunSums(int64_t rows, int64_t columns)
      : columns_(columns), values_(static_cast<size_t>(std::max<int64_t>(1, run_count(rows)) * columns)) {}

  float* row(int64_t run) { return values_.data() + run * columns_; }
  /// A fresh tensor [columns] of `type`, rounded once.
  [[nodiscard]] at::Tensor total(at::ScalarType type) const;

 private:
  int64_t columns_;
  std::vector<float> values_;
};

/// True where the fused kernels apply: all defined tensors are dense, on a CPU, of one type of fp32, fp16 and bf16.
bool fused_kernels_apply(std::initializer_list<const at::Tensor*> tensors);

/// A contiguous tensor's values in fp32: its own, or a widened copy.
at::Tensor widened(const at::Tensor& x);

/// All dims but the last, multiplied.
int64_t row_count(const at::Tensor& x);

}  // namespace lockstep::model::ops
