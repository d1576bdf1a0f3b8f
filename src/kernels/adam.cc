#include "kernels/adam.h"

#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/adam.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::kernels::HWY_NAMESPACE {

void adam_pass(const AdamStep& step, const AdamArrays& arrays, int64_t numel) {
  const auto divisor = set(step.gradient_divisor);
  const auto beta1 = set(step.beta1);
  const auto beta2 = set(step.beta2);
  const auto rest1 = set(1 - step.beta1);
  const auto rest2 = set(1 - step.beta2);
  const auto root_factor = set(1 / std::sqrt(step.bias_correction2));
  const auto epsilon = set(step.epsilon);
  const auto rate = set(step.lr / step.bias_correction1);
  // Neutral where the other form of decay is in use.
  const auto shrink = set(step.decoupled_decay ? 1 - step.lr * step.weight_decay : 1);
  const auto decay = set(step.decoupled_decay ? 0 : step.weight_decay);

  for_each_vector(numel, [&](int64_t i, auto part) HWY_ATTR {
    const auto value = load(arrays.value + i, part);
    auto g = hn::Div(load(arrays.gradient + i, part), divisor);
    g = hn::MulAdd(decay, value, g);
    const auto m = hn::MulAdd(beta1, load(arrays.exp_avg + i, part), hn::Mul(rest1, g));
    const auto v = hn::MulAdd(beta2, load(arrays.exp_avg_sq + i, part), hn::Mul(rest2, hn::Mul(g, g)));
    const auto denominator = hn::MulAdd(hn::Sqrt(v), root_factor, epsilon);
    store(m, arrays.exp_avg + i, part);
    store(v, arrays.exp_avg_sq + i, part);
    store(hn::NegMulAdd(rate, hn::Div(m, denominator), hn::Mul(value, shrink)), arrays.value + i, part);
  });
}

}  // namespace lockstep::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::kernels {

HWY_EXPORT(adam_pass);
void adam(const AdamStep& step, const AdamArrays& arrays, int64_t numel) {
  HWY_DYNAMIC_DISPATCH(adam_pass)(step, arrays, numel);
}

}  // namespace lockstep::kernels
#endif
