#include "model/ops/rows.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>

namespace lockstep::model::ops {

at::Tensor RunSums::total() const {
  at::Tensor result = at::empty({columns_}, at::kFloat);
  auto* to = result.mutable_data_ptr<float>();
  std::copy_n(values_.begin(), columns_, to);
  for (auto run = values_.begin() + columns_; run < values_.end(); run += columns_) {
    for (int64_t c = 0; c < columns_; ++c) to[c] += run[c];
  }
  return result;
}

bool fused_kernels_apply(std::initializer_list<const at::Tensor*> tensors) {
  const auto plain = [](const at::Tensor* x) {
    return !x->defined() || (x->is_cpu() && x->layout() == at::kStrided && x->scalar_type() == at::kFloat);
  };
  return std::all_of(tensors.begin(), tensors.end(), plain) && !at::autocast::is_autocast_enabled(at::kCPU);
}

int64_t row_count(const at::Tensor& x) { return c10::multiply_integers(x.sizes().slice(0, x.dim() - 1)); }

}  // namespace lockstep::model::ops
