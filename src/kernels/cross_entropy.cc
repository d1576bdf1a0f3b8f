#include "kernels/cross_entropy.h"

#include <algorithm>
#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cross_entropy.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::kernels::HWY_NAMESPACE {

HWY_INLINE float largest(const float* row, int64_t classes) {
  const auto lowest = hn::Set(Floats{}, hwy::LowestValue<float>());
  auto result = lowest;
  for_each_vector(classes, [&](int64_t c, auto part)
                               HWY_ATTR { result = hn::Max(result, keep_or(load(row + c, part), lowest, part)); });
  return hn::GetLane(hn::MaxOfLanes(Floats{}, result));
}

// Sum of exp(row - peak): fp32 within each run of classes, fp64 between them.  Writes the terms where kStore.
template <bool kStore, class Value>
HWY_INLINE double sum_exponentials(Value* row, int64_t classes, float peak) {
  constexpr int64_t kRun = 2048;
  const auto zero = hn::Zero(Floats{});
  const auto peaks = hn::Set(Floats{}, peak);
  double total = 0;
  for (int64_t first = 0; first < classes; first += kRun) {
    Value* run = row + first;
    auto sum = zero;
    for_each_vector(std::min(kRun, classes - first), [&](int64_t c, auto part) HWY_ATTR {
      const auto term = keep_or(exp_of_negative(hn::Sub(load(run + c, part), peaks)), zero, part);
      if constexpr (kStore) store(term, run + c, part);
      sum = hn::Add(sum, term);
    });
    total += static_cast<double>(sum_of_lanes(sum));
  }
  return total;
}

void cross_entropy_pass(LogitsShape shape, float* logits, const int64_t* labels, float scale, double* loss) {
  for (int64_t r = 0; r < shape.rows; ++r) {
    float* row = logits + r * shape.stride;
    std::fill(row + shape.classes, row + shape.stride, 0.0F);
    if (labels[r] == kIgnoredLabel) {
      std::fill(row, row + shape.classes, 0.0F);
      loss[r] = 0;
      continue;
    }
    const float peak = largest(row, shape.classes);
    const float target = row[labels[r]];
    const double sum = sum_exponentials<true>(row, shape.classes, peak);
    loss[r] = std::log(sum) + (static_cast<double>(peak) - static_cast<double>(target));
    const auto factor = set(static_cast<double>(scale) / sum);
    for_each_vector(shape.classes,
                    [&](int64_t c, auto part) HWY_ATTR { store(hn::Mul(load(row + c, part), factor), row + c, part); });
    row[labels[r]] -= scale;
  }
}

void cross_entropy_loss_pass(LogitsShape shape, const float* logits, const int64_t* labels, double* loss) {
  for (int64_t r = 0; r < shape.rows; ++r) {
    const float* row = logits + r * shape.stride;
    if (labels[r] == kIgnoredLabel) {
      loss[r] = 0;
      continue;
    }
    const float peak = largest(row, shape.classes);
    const double sum = sum_exponentials<false>(row, shape.classes, peak);
    loss[r] = std::log(sum) + (static_cast<double>(peak) - static_cast<double>(row[labels[r]]));
  }
}

}  // namespace lockstep::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::kernels {

HWY_EXPORT(cross_entropy_pass);
HWY_EXPORT(cross_entropy_loss_pass);

void cross_entropy(LogitsShape shape, float* logits, const int64_t* labels, float scale, double* loss) {
  HWY_DYNAMIC_DISPATCH(cross_entropy_pass)(shape, logits, labels, scale, loss);
}

void cross_entropy_loss(LogitsShape shape, const float* logits, const int64_t* labels, double* loss) {
  HWY_DYNAMIC_DISPATCH(cross_entropy_loss_pass)(shape, logits, labels, loss);
}

}  // namespace lockstep::kernels
#endif
