#pragma once

#include <cstdint>

namespace lockstep::kernels {

/// The two 16-bit floats: bfloat16 (8 bits of exponent, 7 of fraction) and IEEE half (5 and 10).
enum class HalfType { bf16, fp16 };

/// to[i] = from[i], exactly.
void widen(HalfType type, const uint16_t* from, float* to, int64_t numel);

/// to[i] = from[i] rounded to nearest, ties to even; beyond the largest value infinity, NaN stays NaN.  Equal bits on
/// every SIMD level, except for the payload of a NaN.
void narrow(HalfType type, const float* from, uint16_t* to, int64_t numel);

}  // namespace lockstep::kernels
