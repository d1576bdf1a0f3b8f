#pragma once

#include <cstdint>

namespace at {
class Tensor;
}

namespace lockstep::model::ops {

/// Causal attention of a packed projection: qkv [batch, T, 3 * width] holds queries, keys and values, each of `heads`
/// heads, one after the other.  Returns [batch, T, width].  In fp32 on a CPU without dropout by a blocked path that
/// reads qkv where it lies; it keeps the probabilities for backward up to T = 512 and computes them again beyond.
/// First-order gradients only.
at::Tensor causal_self_attention(const at::Tensor& qkv, int64_t heads, double dropout);

}  // namespace lockstep::model::ops
