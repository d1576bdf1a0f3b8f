#pragma once

#include <cstdint>

namespace lockstep::kernels {

/// Labels with this value have no loss and no gradient.
constexpr int64_t kIgnoredLabel = -100;

/// A chunk of rows of logits: row r starts at logits + r * stride and has `classes` values; the stride - classes values
/// after them are padding.
struct LogitsShape {
  int64_t rows = 0;
  int64_t classes = 0;
  int64_t stride = 0;
};

/// loss[r] = log(sum_c exp(logits[r][c])) - logits[r][label[r]], in fp64.  The logits are overwritten with
/// their gradient, (softmax - onehot(label)) * scale, and the padding with zeros.  An ignored row has loss 0 and
/// gradient 0.  A NaN or +infinity gives a non-finite loss; -infinity is a class left out.  Requires: labels in [0,
/// classes) or kIgnoredLabel.
void cross_entropy(LogitsShape shape, float* logits, const int64_t* labels, float scale, double* loss);

/// The losses alone; the logits stay as they are.
void cross_entropy_loss(LogitsShape shape, const float* logits, const int64_t* labels, double* loss);

}  // namespace lockstep::kernels
