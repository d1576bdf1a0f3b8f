#pragma once

#include <cstdint>

namespace lockstep::kernels {

/// The update rules beside Adam, each one pass over a slice.  Arrays hold numel values each and do not overlap;
/// results do not depend on the slicing.  gradient_divisor: g is divided by it before anything else.

struct SgdStep {
  double lr = 1e-3;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;
  bool first = false;  ///< The first update: the buffer becomes g, without dampening.
  float gradient_divisor = 1.0F;
};

/// g += weight_decay p; buf = momentum buf + (1 - dampening) g; u = nesterov ? g + momentum buf : buf; p -= lr u.
/// momentum_buffer is not touched and may be null where momentum is 0.
void sgd(const SgdStep& step, float* value, const float* gradient, float* momentum_buffer, int64_t numel);

struct AdagradStep {
  double lr = 1e-2;
  double epsilon = 1e-10;
  double weight_decay = 0;
  float gradient_divisor = 1.0F;
};

/// g += weight_decay p; sum += g^2; p -= lr g / (sqrt(sum) + epsilon).
void adagrad(const AdagradStep& step, float* value, const float* gradient, float* sum, int64_t numel);

struct RmspropStep {
  double lr = 1e-2;
  double alpha = 0.99;
  double epsilon = 1e-8;
  double weight_decay = 0;
  double momentum = 0;
  bool centered = false;
  float gradient_divisor = 1.0F;
};

struct RmspropArrays {
  float* value = nullptr;
  const float* gradient = nullptr;
  float* square_avg = nullptr;
  float* momentum_buffer = nullptr;  ///< Null where momentum is 0.
  float* grad_avg = nullptr;         ///< Null where not centered.
};

/// g += weight_decay p; s = alpha s + (1 - alpha) g^2; a = sqrt(s), or sqrt(s - mean(g)^2) where centered, + epsilon;
/// without momentum p -= lr g / a, else buf = momentum buf + g / a; p -= lr buf.
void rmsprop(const RmspropStep& step, const RmspropArrays& arrays, int64_t numel);

}  // namespace lockstep::kernels
