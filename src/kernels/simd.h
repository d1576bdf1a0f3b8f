#pragma once

namespace lockstep::kernels {

/// The instruction set that the kernels use on this host: "AVX2", "AVX3" (AVX-512), "SSE2", "NEON", ...  Chosen at run
/// time; results are equal between runs only at the same level.
const char* simd_level();

}  // namespace lockstep::kernels
