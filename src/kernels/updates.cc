#include "kernels/updates.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/updates.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::kernels::HWY_NAMESPACE {

void sgd_pass(const SgdStep& step, float* value, const float* gradient, float* momentum_buffer, int64_t numel) {
  const auto divisor = set(step.gradient_divisor);
  const auto decay = set(step.weight_decay);
  const auto rate = set(step.lr);
  const auto momentum = set(step.momentum);
  // On the first update the buffer is zero, so undampened addition makes it g.
  const auto fresh = set(step.first ? 1 : 1 - step.dampening);
  if (momentum_buffer == nullptr || step.momentum == 0) {
    for_each_vector(numel, [&](int64_t i, auto part) HWY_ATTR {
      const auto p = load(value + i, part);
      const auto g = hn::MulAdd(decay, p, hn::Div(load(gradient + i, part), divisor));
      store(hn::NegMulAdd(rate, g, p), value + i, part);
    });
    return;
  }
  for_each_vector(numel, [&](int64_t i, auto part) HWY_ATTR {
    const auto p = load(value + i, part);
    const auto g = hn::MulAdd(decay, p, hn::Div(load(gradient + i, part), divisor));
    const auto old = step.first ? hn::Zero(Floats{}) : load(momentum_buffer + i, part);
    const auto buffer = hn::MulAdd(momentum, old, hn::Mul(fresh, g));
    const auto u = step.nesterov ? hn::MulAdd(momentum, buffer, g) : buffer;
    store(buffer, momentum_buffer + i, part);
    store(hn::NegMulAdd(rate, u, p), value + i, part);
  });
}

void adagrad_pass(const AdagradStep& step, float* value, const float* gradient, float* sum, int64_t numel) {
  const auto divisor = set(step.gradient_divisor);
  const auto decay = set(step.weight_decay);
  const auto rate = set(step.lr);
  const auto epsilon = set(step.epsilon);
  for_each_vector(numel, [&](int64_t i, auto part) HWY_ATTR {
    const auto p = load(value + i, part);
    const auto g = hn::MulAdd(decay, p, hn::Div(load(gradient + i, part), divisor));
    const auto s = hn::MulAdd(g, g, load(sum + i, part));
    store(s, sum + i, part);
    store(hn::NegMulAdd(rate, hn::Div(g, hn::Add(hn::Sqrt(s), epsilon)), p), value + i, part);
  });
}

void rmsprop_pass(const RmspropStep& step, const RmspropArrays& arrays, int64_t numel) {
  const auto divisor = set(step.gradient_divisor);
  const auto decay = set(step.weight_decay);
  const auto rate = set(step.lr);
  const auto alpha = set(step.alpha);
  const auto rest = set(1 - step.alpha);
  const auto epsilon = set(step.epsilon);
  const auto momentum = set(step.momentum);
  for_each_vector(numel, [&](int64_t i, auto part) HWY_ATTR {
    const auto p = load(arrays.value + i, part);
    const auto g = hn::MulAdd(decay, p, hn::Div(load(arrays.gradient + i, part), divisor));
    const auto s = hn::MulAdd(alpha, load(arrays.square_avg + i, part), hn::Mul(rest, hn::Mul(g, g)));
    store(s, arrays.square_avg + i, part);
    auto variance = s;
    if (step.centered) {
      const auto mean = hn::MulAdd(alpha, load(arrays.grad_avg + i, part), hn::Mul(rest, g));
      store(mean, arrays.grad_avg + i, part);
      // Rounding can make it negative.
      variance = hn::Max(hn::NegMulAdd(mean, mean, s), hn::Zero(Floats{}));
    }
    auto u = hn::Div(g, hn::Add(hn::Sqrt(variance), epsilon));
    if (step.momentum != 0) {
      u = hn::MulAdd(momentum, load(arrays.momentum_buffer + i, part), u);
      store(u, arrays.momentum_buffer + i, part);
    }
    store(hn::NegMulAdd(rate, u, p), arrays.value + i, part);
  });
}

}  // namespace lockstep::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::kernels {

HWY_EXPORT(sgd_pass);
HWY_EXPORT(adagrad_pass);
HWY_EXPORT(rmsprop_pass);

void sgd(const SgdStep& step, float* value, const float* gradient, float* momentum_buffer, int64_t numel) {
  HWY_DYNAMIC_DISPATCH(sgd_pass)(step, value, gradient, momentum_buffer, numel);
}

void adagrad(const AdagradStep& step, float* value, const float* gradient, float* sum, int64_t numel) {
  HWY_DYNAMIC_DISPATCH(adagrad_pass)(step, value, gradient, sum, numel);
}

void rmsprop(const RmspropStep& step, const RmspropArrays& arrays, int64_t numel) {
  HWY_DYNAMIC_DISPATCH(rmsprop_pass)(step, arrays, numel);
}

}  // namespace lockstep::kernels
#endif
