#include "kernels/attention.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::kernels::HWY_NAMESPACE {

void causal_softmax_pass(CausalBlock block, float* scores) {
  const auto lowest = hn::Set(Floats{}, hwy::LowestValue<float>());
  const auto zero = hn::Zero(Floats{});
  for (int64_t r = 0; r < block.rows; ++r) {
    float* row = scores + r * block.stride;
    const int64_t seen = block.visible + r;
    auto peaks = lowest;
    for_each_vector(seen, [&](int64_t c, auto part)
                              HWY_ATTR { peaks = hn::Max(peaks, keep_or(load(row + c, part), lowest, part)); });
    peaks = hn::MaxOfLanes(Floats{}, peaks);
    auto sums = zero;
    for_each_vector(seen, [&](int64_t c, auto part) HWY_ATTR {
      const auto term = keep_or(exp_of_negative(hn::Sub(load(row + c, part), peaks)), zero, part);
      store(term, row + c, part);
      sums = hn::Add(sums, term);
    });
    const auto factor = set(1.0 / static_cast<double>(sum_of_lanes(sums)));
    for_each_vector(seen,
                    [&](int64_t c, auto part) HWY_ATTR { store(hn::Mul(load(row + c, part), factor), row + c, part); });
    std::fill(row + seen, row + block.columns, 0.0F);
  }
}

void causal_softmax_backward_pass(CausalBlock block, const float* probabilities, float scale, float* gradients) {
  const auto scales = hn::Set(Floats{}, scale);
  for (int64_t r = 0; r < block.rows; ++r) {
    const float* p = probabilities + r * block.stride;
    float* row = gradients + r * block.stride;
    const int64_t seen = block.visible + r;
    auto products = hn::Zero(Floats{});
    for_each_vector(seen, [&](int64_t c, auto part)
                              HWY_ATTR { products = hn::MulAdd(load(p + c, part), load(row + c, part), products); });
    const auto mean = hn::SumOfLanes(Floats{}, products);
    for_each_vector(seen, [&](int64_t c, auto part) HWY_ATTR {
      const auto weighted = hn::Mul(load(p + c, part), scales);
      store(hn::Mul(weighted, hn::Sub(load(row + c, part), mean)), row + c, part);
    });
    std::fill(row + seen, row + block.columns, 0.0F);
  }
}

}  // namespace lockstep::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::kernels {

HWY_EXPORT(causal_softmax_pass);
HWY_EXPORT(causal_softmax_backward_pass);

void causal_softmax(CausalBlock block, float* scores) { HWY_DYNAMIC_DISPATCH(causal_softmax_pass)(block, scores); }

void causal_softmax_backward(CausalBlock block, const float* probabilities, float scale, float* gradients) {
  HWY_DYNAMIC_DISPATCH(causal_softmax_backward_pass)(block, probabilities, scale, gradients);
}

}  // namespace lockstep::kernels
#endif
