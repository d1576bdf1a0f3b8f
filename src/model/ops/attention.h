#pragma once

#include <cstdint>

namespace at {
class Tensor;
}

namespace lockstep::model::ops {

/// Each [batch, heads, T, head width], of one type.
struct AttentionHeads {
  const at::Tensor& queries;
  const at::Tensor& keys;
  const at::Tensor& values;
};

/// Causal softmax attention by LibTorch's operator, like `queries`; 16-bit heads on a CPU are computed in fp32.
at::Tensor causal_attention(const AttentionHeads& heads, double dropout);

/// Causal attention of a packed projection: qkv [batch, T, 3 * width] holds queries, keys and values, each of `heads`
/// heads, one after the other.  Returns [batch, T, width].  On a CPU without dropout by a blocked path in fp32 that
/// reads qkv where it lies, 16-bit floats head by head; it keeps the probabilities for backward up to T = 512 and
/// computes them again beyond. First-order gradients only.
at::Tensor causal_self_attention(const at::Tensor& qkv, int64_t heads, double dropout);

}  // namespace lockstep::model::ops
