#pragma once

#include <cstdint>

#include "kernels/gelu.h"

namespace lockstep::kernels {

/// Layer norm of each row: y = (x - mean) * rstd * weight + bias, rstd = 1 / sqrt(variance + epsilon).
/// weight and bias: `columns` values; bias may be null.  mean and rstd: one value per row, kept for backward.  y may be
/// x unless backward will need x.
struct LayerNormForward {
  const float* x = nullptr;
  const float* weight = nullptr;
  const float* bias = nullptr;
  double epsilon = 1e-5;
  float* y = nullptr;
  float* mean = nullptr;
  float* rstd = nullptr;
};
void layer_norm_forward(Matrix shape, const LayerNormForward& arrays);

/// dx may be dy.  weight_gradient and bias_gradient (`columns` values each; either may be null) are added to, in
/// gelu_backward's order of rows.  residual_gradient, if given, is added to dx: the gradient that bypasses the norm.
struct LayerNormBackward {
  const float* dy = nullptr;
  const float* x = nullptr;
  const float* weight = nullptr;
  const float* mean = nullptr;
  const float* rstd = nullptr;
  const float* residual_gradient = nullptr;
  float* dx = nullptr;
  float* weight_gradient = nullptr;
  float* bias_gradient = nullptr;
};
void layer_norm_backward(Matrix shape, const LayerNormBackward& arrays);

}  // namespace lockstep::kernels
