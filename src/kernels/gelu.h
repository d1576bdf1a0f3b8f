#pragma once

#include <cstdint>

namespace lockstep::kernels {

/// Row-major [rows, columns] without gaps.
struct Matrix {
  int64_t rows = 0;
  int64_t columns = 0;
};

/// GELU in its tanh form of u = x + bias, with the derivative kept for backward: y = gelu(u), derivative = gelu'(u).
/// bias: `columns` values, or null.  y or derivative may be x.
void gelu_forward(Matrix shape, const float* x, const float* bias, float* y, float* derivative);

/// The same without the derivative, for evaluation.  y may be x.
void gelu(Matrix shape, const float* x, const float* bias, float* y);

/// dx = dy * derivative; dx may be dy or derivative.  bias_gradient (`columns` values, or null): dx's column sums are
/// added to it, in row order within runs of 64 rows from this call's first, and run after run.  For sums that do not
/// depend on the number of threads, give each fixed run of rows its own partial sums and add those in order.
void gelu_backward(Matrix shape, const float* dy, const float* derivative, float* dx, float* bias_gradient);

/// Adds x's column sums to `sums`, in gelu_backward's order.
void add_column_sums(Matrix shape, const float* x, float* sums);

}  // namespace lockstep::kernels
