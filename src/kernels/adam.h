#pragma once

#include <cstdint>

namespace lockstep::kernels {

/// Adam's numbers for one update.
struct AdamStep {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;
  bool decoupled_decay = true;    ///< AdamW: p *= 1 - lr * weight_decay.  False: g += weight_decay * p (L2).
  double bias_correction1 = 1;    ///< 1 - beta1^t; 1 switches the correction off.
  double bias_correction2 = 1;    ///< 1 - beta2^t.
  float gradient_divisor = 1.0F;  ///< g is divided by it before anything else.
};

/// numel values each; the four do not overlap.
struct AdamArrays {
  float* value = nullptr;
  const float* gradient = nullptr;
  float* exp_avg = nullptr;
  float* exp_avg_sq = nullptr;
};

/// One update in one pass: m = beta1 m + (1 - beta1) g; v = beta2 v + (1 - beta2) g^2;
/// p -= lr / bc1 * m / (sqrt(v) / sqrt(bc2) + epsilon).  Results do not depend on the slicing.
void adam(const AdamStep& step, const AdamArrays& arrays, int64_t numel);

}  // namespace lockstep::kernels
