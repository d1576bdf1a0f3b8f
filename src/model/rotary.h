#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace lockstep::model {

/// Rotary positions: element pairs (i, i + width/2) of a head are turned by position * theta^(-2i/width).  One table
/// serves all layers of a model; made on first use and again for longer sequences.  Used by one thread at a time.
class Rotary {
 public:
  Rotary(int64_t head_width, double theta) : head_width_(head_width), theta_(theta) {}

  /// x [batch, T, heads, head_width], turned by its position 0 ... T-1.
  [[nodiscard]] at::Tensor turn(const at::Tensor& x);

 private:
  void make_table(int64_t length, const at::Device& device);

  const int64_t head_width_;
  const double theta_;
  at::Tensor cosines_;  ///< fp32 [T, head_width / 2].
  at::Tensor sines_;
};

}  // namespace lockstep::model
