#include "model/ops/rows.h"

#include <ATen/ATen.h>

namespace lockstep::model::ops {

at::Tensor RunSums::total(at::ScalarType type) const {
  at::Tensor result = at::empty({columns_}, at::kFloat);
  auto* to = result.mutable_data_ptr<float>();
  std::copy_n(values_.begin(), columns_, to);
  for (auto run = values_.begin() + columns_; run < values_.end(); run += columns_) {
    for (int64_t c = 0; c < columns_; ++c) to[c] += run[c];
  }
  return result.to(type);
}

bool fused_kernels_apply(std::initializer_list<const at::Tensor*> tensors) {
  const at::ScalarType type = (*tensors.begin())->scalar_type();
  if (type != at::kFloat && type != at::kHalf && type != at::kBFloat16) return false;
  return std::all_of(tensors.begin(), tensors.end(), [type](const at::Tensor* x) {
    return !x->defined() || (x->is_cpu() && x->layout() == at::kStrided && x->scalar_type() == type);
  });
}

at::Tensor widened(const at::Tensor& x) {
  if (x.scalar_type() == at::kFloat) return x;
  at::Tensor result = at::empty(x.sizes(), x.options().dtype(at::kFloat));
  tensor::convert(tensor::elements_of(x), tensor::mutable_elements_of(result), x.numel());
  return result;
}

int64_t row_count(const at::Tensor& x) { return c10::multiply_integers(x.sizes().slice(0, x.dim() - 1)); }

}  // namespace lockstep::model::ops
