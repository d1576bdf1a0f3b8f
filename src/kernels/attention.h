#pragma once

#include <cstdint>

namespace lockstep::kernels {

/// A block of rows of a causal attention matrix: row r, of `columns` values from r * stride, sees its first visible + r
/// columns.  Requires: 1 <= visible, visible + rows - 1 <= columns.
struct CausalBlock {
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t stride = 0;
  int64_t visible = 1;
};

/// Scores become their row's softmax over the columns that the row sees, and 0 elsewhere.
void causal_softmax(CausalBlock block, float* scores);

/// The gradient of scale * scores, in place of the probabilities' own:
/// gradients = scale * p * (gradients - sum over the row of p * gradients); 0 where the row does not see.
void causal_softmax_backward(CausalBlock block, const float* probabilities, float scale, float* gradients);

}  // namespace lockstep::kernels
