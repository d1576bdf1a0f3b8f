#pragma once

#include <cstdint>
#include <span>

#include "kernels/exact_sum.h"

namespace lockstep::kernels {

/// Squares are summed in blocks of this many elements, counted from each parameter's element 0.
constexpr int64_t kBlockNumel = 64;

/// mean[i] = (((c[0][i] + c[1][i]) + c[2][i]) + ...) * (1 / c.size()), in fp32 in exactly this order.
/// contributions: one pointer per rank, in rank order, to numel values each.  mean may be one of them.
/// non_finite: one flag per contribution, set to 1 if that contribution holds an infinity or NaN, else left alone.
/// Returns whether every mean is finite (finite contributions can overflow).  Results do not depend on the slicing.
bool sum_mean(std::span<const float* const> contributions, int64_t numel, float* mean, std::span<uint8_t> non_finite);

/// Adds the squares of values[0..numel) to `sum`: fp64 within each block of 64, exact between blocks.  `values` starts
/// at a block of its parameter (element 64 k), and only the parameter's last block may be short, so the sum does not
/// depend on how the parameter is cut.  Equal bits on every SIMD level.
/// Returns whether every value is finite; blocks with one that is not are left out of the sum.
bool add_squares(const float* values, int64_t numel, ExactSum& sum);

/// Whether every value is finite.
bool all_finite(const float* values, int64_t numel);

/// to[i] += from[i].  No overlap, except to == from.
void accumulate(float* to, const float* from, int64_t numel);

/// values[i] *= factor.
void scale(float* values, float factor, int64_t numel);

/// Copies numel values; no overlap.
void copy(float* to, const float* from, int64_t numel);

}  // namespace lockstep::kernels
