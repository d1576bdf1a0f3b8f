#include "model/rotary.h"

#include <ATen/ATen.h>

namespace lockstep::model {

void Rotary::make_table(int64_t length, const at::Device& device) {
  const auto fp32 = at::TensorOptions().dtype(at::kFloat).device(device);
  const at::Tensor exponents = at::arange(0, head_width_, 2, fp32) / static_cast<double>(head_width_);
  const at::Tensor frequencies = at::reciprocal(at::pow(theta_, exponents));
  const at::Tensor angles = at::outer(at::arange(length, fp32), frequencies);
  cosines_ = angles.cos();
  sines_ = angles.sin();
}

at::Tensor Rotary::turn(const at::Tensor& x) {
  const int64_t length = x.size(1);
  if (!cosines_.defined() || cosines_.size(0) < length || cosines_.device() != x.device())
    make_table(length, x.device());
  const int64_t half = head_width_ / 2;
  // [T, 1, half] against [batch, T, heads, half]: the table stays fp32, and so do products with it; rounded once.
  const at::Tensor cosines = cosines_.narrow(0, 0, length).unsqueeze(1);
  const at::Tensor sines = sines_.narrow(0, 0, length).unsqueeze(1);
  const at::Tensor first = x.narrow(-1, 0, half);
  const at::Tensor second = x.narrow(-1, half, half);
  return at::cat({first * cosines - second * sines, second * cosines + first * sines}, -1).to(x.scalar_type());
}

}  // namespace lockstep::model
