#include "kernels/reference.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace lockstep::kernels::reference {
namespace {

double unscaled(float gradient, float divisor, double decay, float value) {
  return static_cast<double>(gradient) / divisor + decay * value;
}

float float_of_bits(uint32_t bits) { return std::bit_cast<float>(bits); }

float widened_fp16(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000U) << 16;
  const uint32_t exponent = half >> 10 & 0x1FU;
  const uint32_t fraction = half & 0x3FFU;
  if (exponent == 0) return std::copysign(static_cast<float>(fraction) * 0x1p-24F, float_of_bits(sign));
  if (exponent == 31) return float_of_bits(sign | 0x7F800000U | (fraction != 0 ? 0x400000U : 0U) | fraction << 13);
  return float_of_bits(sign | (exponent + 112) << 23 | fraction << 13);
}

uint16_t narrowed_fp16(float value) {
  const auto sign = static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16 & 0x8000U);
  const float size = std::fabs(value);
  const auto with_sign = [sign](uint32_t rest) { return static_cast<uint16_t>(sign | rest); };
  if (std::isnan(value)) return with_sign(0x7E00);
  if (size >= 65520.0F) return with_sign(0x7C00);
  // In steps of the least number; what reaches 1024 steps carries into the exponent by itself.
  if (size < 0x1p-14F) return with_sign(static_cast<uint32_t>(std::nearbyint(size * 0x1p24F)));
  const auto bits = std::bit_cast<uint32_t>(size);
  return with_sign((bits + 0xFFFU + (bits >> 13 & 1U) - (112U << 23)) >> 13);
}

uint16_t narrowed_bf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return 0x7FC0;
  return static_cast<uint16_t>((bits + 0x7FFFU + (bits >> 16 & 1U)) >> 16);
}

}  // namespace

void adam(const AdamStep& step, const AdamArrays& arrays, int64_t numel) {
  for (int64_t i = 0; i < numel; ++i) {
    double value = arrays.value[i];
    const double l2 = step.decoupled_decay ? 0 : step.weight_decay;
    const double g = unscaled(arrays.gradient[i], step.gradient_divisor, l2, arrays.value[i]);
    if (step.decoupled_decay) value *= 1 - step.lr * step.weight_decay;
    const double m = step.beta1 * arrays.exp_avg[i] + (1 - step.beta1) * g;
    const double v = step.beta2 * arrays.exp_avg_sq[i] + (1 - step.beta2) * g * g;
    const double denominator = std::sqrt(v) / std::sqrt(step.bias_correction2) + step.epsilon;
    arrays.exp_avg[i] = static_cast<float>(m);
    arrays.exp_avg_sq[i] = static_cast<float>(v);
    arrays.value[i] = static_cast<float>(value - step.lr / step.bias_correction1 * m / denominator);
  }
}

void sgd(const SgdStep& step, float* value, const float* gradient, float* momentum_buffer, int64_t numel) {
  for (int64_t i = 0; i < numel; ++i) {
    const double g = unscaled(gradient[i], step.gradient_divisor, step.weight_decay, value[i]);
    double u = g;
    if (step.momentum != 0) {
      const double buffer = step.first ? g : step.momentum * momentum_buffer[i] + (1 - step.dampening) * g;
      momentum_buffer[i] = static_cast<float>(buffer);
      u = step.nesterov ? g + step.momentum * buffer : buffer;
    }
    value[i] = static_cast<float>(value[i] - step.lr * u);
  }
}

void adagrad(const AdagradStep& step, float* value, const float* gradient, float* sum, int64_t numel) {
  for (int64_t i = 0; i < numel; ++i) {
    const double g = unscaled(gradient[i], step.gradient_divisor, step.weight_decay, value[i]);
    const double s = sum[i] + g * g;
    sum[i] = static_cast<float>(s);
    value[i] = static_cast<float>(value[i] - step.lr * g / (std::sqrt(s) + step.epsilon));
  }
}

void rmsprop(const RmspropStep& step, const RmspropArrays& arrays, int64_t numel) {
  for (int64_t i = 0; i < numel; ++i) {
    const double g = unscaled(arrays.gradient[i], step.gradient_divisor, step.weight_decay, arrays.value[i]);
    const double s = step.alpha * arrays.square_avg[i] + (1 - step.alpha) * g * g;
    arrays.square_avg[i] = static_cast<float>(s);
    double variance = s;
    if (step.centered) {
      const double mean = step.alpha * arrays.grad_avg[i] + (1 - step.alpha) * g;
      arrays.grad_avg[i] = static_cast<float>(mean);
      variance = std::max(s - mean * mean, 0.0);
    }
    double u = g / (std::sqrt(variance) + step.epsilon);
    if (step.momentum != 0) {
      u += step.momentum * arrays.momentum_buffer[i];
      arrays.momentum_buffer[i] = static_cast<float>(u);
    }
    arrays.value[i] = static_cast<float>(arrays.value[i] - step.lr * u);
  }
}

bool sum_mean(std::span<const float* const> contributions, int64_t numel, float* mean, std::span<uint8_t> non_finite) {
  const float factor = 1.0F / static_cast<float>(contributions.size());
  bool finite = true;
  for (int64_t i = 0; i < numel; ++i) {
    float sum = 0;
    for (size_t rank = 0; rank < contributions.size(); ++rank) {
      const float x = contributions[rank][i];
      if (!std::isfinite(x)) non_finite[rank] = 1;
      sum = rank == 0 ? x : sum + x;
    }
    mean[i] = sum * factor;
    finite = finite && std::isfinite(mean[i]);
  }
  return finite;
}

bool add_squares(const float* values, int64_t numel, ExactSum& sum) {
  bool finite = true;
  for (int64_t first = 0; first < numel; first += kBlockNumel) {
    double partial[8] = {};
    for (int64_t i = first; i < std::min(first + kBlockNumel, numel); ++i) {
      partial[i % 8] += static_cast<double>(values[i]) * static_cast<double>(values[i]);
    }
    const double block = ((partial[0] + partial[4]) + (partial[2] + partial[6])) +
                         ((partial[1] + partial[5]) + (partial[3] + partial[7]));
    if (std::isfinite(block)) {
      sum.add(block);
    } else {
      finite = false;
    }
  }
  return finite;
}

void gelu_forward(Matrix shape, const float* x, const float* bias, float* y, float* derivative) {
  const double root = std::sqrt(2 / std::acos(-1.0));
  for (int64_t i = 0; i < shape.rows * shape.columns; ++i) {
    const float sum = bias == nullptr ? x[i] : x[i] + bias[i % shape.columns];
    const double u = sum;
    const double t = std::tanh(root * (u + 0.044715 * u * u * u));
    derivative[i] = static_cast<float>(0.5 * (1 + t) + 0.5 * u * (1 - t * t) * root * (1 + 3 * 0.044715 * u * u));
    y[i] = static_cast<float>(0.5 * u * (1 + t));
  }
}

void gelu_backward(Matrix shape, const float* dy, const float* derivative, float* dx, float* bias_gradient) {
  for (int64_t c = 0; c < shape.columns; ++c) {
    double sum = 0;
    for (int64_t r = 0; r < shape.rows; ++r) {
      const int64_t i = r * shape.columns + c;
      dx[i] = dy[i] * derivative[i];
      sum += dx[i];
    }
    if (bias_gradient != nullptr) bias_gradient[c] = static_cast<float>(bias_gradient[c] + sum);
  }
}

void layer_norm_forward(Matrix shape, const LayerNormForward& arrays) {
  const auto columns = static_cast<double>(shape.columns);
  for (int64_t r = 0; r < shape.rows; ++r) {
    const float* x = arrays.x + r * shape.columns;
    double sum = 0;
    for (int64_t c = 0; c < shape.columns; ++c) sum += x[c];
    const double mean = sum / columns;
    double squares = 0;
    for (int64_t c = 0; c < shape.columns; ++c) squares += (x[c] - mean) * (x[c] - mean);
    const double rstd = 1 / std::sqrt(squares / columns + arrays.epsilon);
    for (int64_t c = 0; c < shape.columns; ++c) {
      const double bias = arrays.bias == nullptr ? 0 : arrays.bias[c];
      arrays.y[r * shape.columns + c] = static_cast<float>((x[c] - mean) * rstd * arrays.weight[c] + bias);
    }
    arrays.mean[r] = static_cast<float>(mean);
    arrays.rstd[r] = static_cast<float>(rstd);
  }
}

void layer_norm_backward(Matrix shape, const LayerNormBackward& arrays) {
  const auto columns = static_cast<double>(shape.columns);
  for (int64_t r = 0; r < shape.rows; ++r) {
    const int64_t start = r * shape.columns;
    const double mean = arrays.mean[r];
    const double rstd = arrays.rstd[r];
    double sum = 0;
    double projection = 0;
    for (int64_t c = 0; c < shape.columns; ++c) {
      const double dy = arrays.dy[start + c];
      const double normal = (arrays.x[start + c] - mean) * rstd;
      sum += dy * arrays.weight[c];
      projection += dy * arrays.weight[c] * normal;
      if (arrays.weight_gradient != nullptr) arrays.weight_gradient[c] += static_cast<float>(dy * normal);
      if (arrays.bias_gradient != nullptr) arrays.bias_gradient[c] += static_cast<float>(dy);
    }
    for (int64_t c = 0; c < shape.columns; ++c) {
      const double normal = (arrays.x[start + c] - mean) * rstd;
      const double g = static_cast<double>(arrays.dy[start + c]) * arrays.weight[c];
      const double residual = arrays.residual_gradient == nullptr ? 0 : arrays.residual_gradient[start + c];
      arrays.dx[start + c] = static_cast<float>(rstd * (g - sum / columns - normal * projection / columns) + residual);
    }
  }
}

void cross_entropy(LogitsShape shape, float* logits, const int64_t* labels, float scale, double* loss) {
  for (int64_t r = 0; r < shape.rows; ++r) {
    float* row = logits + r * shape.stride;
    const bool ignored = labels[r] == kIgnoredLabel;
    double peak = row[0];
    for (int64_t c = 0; c < shape.classes; ++c) peak = std::max(peak, static_cast<double>(row[c]));
    double sum = 0;
    for (int64_t c = 0; c < shape.classes; ++c) sum += std::exp(row[c] - peak);
    loss[r] = ignored ? 0 : std::log(sum) + peak - row[labels[r]];
    for (int64_t c = 0; c < shape.stride; ++c) {
      const double probability = c < shape.classes ? std::exp(row[c] - peak) / sum : 0;
      row[c] = ignored ? 0 : static_cast<float>((probability - (c == labels[r] ? 1 : 0)) * scale);
    }
  }
}

void widen(HalfType type, const uint16_t* from, float* to, int64_t numel) {
  for (int64_t i = 0; i < numel; ++i)
    to[i] = type == HalfType::bf16 ? float_of_bits(static_cast<uint32_t>(from[i]) << 16) : widened_fp16(from[i]);
}

void narrow(HalfType type, const float* from, uint16_t* to, int64_t numel) {
  for (int64_t i = 0; i < numel; ++i) to[i] = type == HalfType::bf16 ? narrowed_bf16(from[i]) : narrowed_fp16(from[i]);
}

}  // namespace lockstep::kernels::reference
