#include "kernels/norm.h"

#include <algorithm>
#include <cmath>
#include <vector>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/norm.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::kernels::HWY_NAMESPACE {

// Sum of term(offset, part) over all lanes, in four interleaved sums: one would wait for each addition.
template <class Term>
HWY_INLINE double sum_of_terms(int64_t numel, const Term& term) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(Floats{}));
  auto sum0 = hn::Zero(Floats{});
  auto sum1 = sum0;
  auto sum2 = sum0;
  auto sum3 = sum0;
  int64_t done = 0;
  for (; done + 4 * lanes <= numel; done += 4 * lanes) {
    sum0 = hn::Add(sum0, term(done, Whole{}));
    sum1 = hn::Add(sum1, term(done + lanes, Whole{}));
    sum2 = hn::Add(sum2, term(done + 2 * lanes, Whole{}));
    sum3 = hn::Add(sum3, term(done + 3 * lanes, Whole{}));
  }
  for_each_vector(numel - done, [&](int64_t i, auto part) HWY_ATTR { sum0 = hn::Add(sum0, term(done + i, part)); });
  return static_cast<double>(sum_of_lanes(hn::Add(hn::Add(sum0, sum1), hn::Add(sum2, sum3))));
}

void layer_norm_forward_pass(Matrix shape, const LayerNormForward& arrays) {
  const auto columns = static_cast<double>(shape.columns);
  const auto zero = hn::Zero(Floats{});
  for (int64_t row = 0; row < shape.rows; ++row) {
    const float* x = arrays.x + row * shape.columns;
    float* y = arrays.y + row * shape.columns;
    const double sum = sum_of_terms(shape.columns, [&](int64_t c, auto part) HWY_ATTR { return load(x + c, part); });
    const auto mean = static_cast<float>(sum / columns);
    const auto means = hn::Set(Floats{}, mean);
    const double squares = sum_of_terms(shape.columns, [&](int64_t c, auto part) HWY_ATTR {
      const auto centered = keep_or(hn::Sub(load(x + c, part), means), zero, part);
      return hn::Mul(centered, centered);
    });
    const double variance = squares / columns;
    const auto rstd = static_cast<float>(1 / std::sqrt(variance + arrays.epsilon));
    const auto rstds = hn::Set(Floats{}, rstd);
    for_each_vector(shape.columns, [&](int64_t c, auto part) HWY_ATTR {
      const auto normal = hn::Mul(hn::Sub(load(x + c, part), means), rstds);
      const auto bias = arrays.bias == nullptr ? zero : load(arrays.bias + c, part);
      store(hn::MulAdd(normal, load(arrays.weight + c, part), bias), y + c, part);
    });
    arrays.mean[row] = mean;
    arrays.rstd[row] = rstd;
  }
}

HWY_INLINE void add_and_clear(std::vector<float>& partial, float* sums) {
  if (sums != nullptr) {
    for_each_vector(static_cast<int64_t>(partial.size()), [&](int64_t c, auto part) HWY_ATTR {
      store(hn::Add(load(sums + c, part), load(partial.data() + c, part)), sums + c, part);
    });
  }
  std::fill(partial.begin(), partial.end(), 0.0F);
}

void layer_norm_backward_pass(Matrix shape, const LayerNormBackward& arrays) {
  constexpr int64_t kRun = 64;
  const auto zero = hn::Zero(Floats{});
  std::vector<float> weight_partial(static_cast<size_t>(shape.columns));
  std::vector<float> bias_partial(static_cast<size_t>(shape.columns));
  for (int64_t row = 0; row < shape.rows; ++row) {
    const int64_t start = row * shape.columns;
    const float* x = arrays.x + start;
    const float* dy = arrays.dy + start;
    const auto mean = hn::Set(Floats{}, arrays.mean[row]);
    const auto rstd = hn::Set(Floats{}, arrays.rstd[row]);
    auto sum = zero;
    auto projection = zero;
    for_each_vector(shape.columns, [&](int64_t c, auto part) HWY_ATTR {
      const auto d = load(dy + c, part);
      const auto normal = hn::Mul(hn::Sub(load(x + c, part), mean), rstd);
      const auto g = hn::Mul(d, load(arrays.weight + c, part));
      sum = hn::Add(sum, g);
      projection = hn::MulAdd(g, normal, projection);  // past the end g is zero
      float* weights = weight_partial.data() + c;
      float* biases = bias_partial.data() + c;
      store(hn::MulAdd(d, normal, load(weights, part)), weights, part);
      store(hn::Add(load(biases, part), d), biases, part);
    });
    const auto columns = static_cast<double>(shape.columns);
    const auto mean_g = set(sum_of_lanes(sum) / columns);
    const auto mean_projection = set(sum_of_lanes(projection) / columns);
    for_each_vector(shape.columns, [&](int64_t c, auto part) HWY_ATTR {
      const auto normal = hn::Mul(hn::Sub(load(x + c, part), mean), rstd);
      const auto g = hn::Mul(load(dy + c, part), load(arrays.weight + c, part));
      auto dx = hn::Mul(rstd, hn::Sub(g, hn::MulAdd(normal, mean_projection, mean_g)));
      if (arrays.residual_gradient != nullptr) dx = hn::Add(dx, load(arrays.residual_gradient + start + c, part));
      store(dx, arrays.dx + start + c, part);
    });
    if ((row + 1) % kRun == 0 || row + 1 == shape.rows) {
      add_and_clear(weight_partial, arrays.weight_gradient);
      add_and_clear(bias_partial, arrays.bias_gradient);
    }
  }
}

}  // namespace lockstep::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::kernels {

HWY_EXPORT(layer_norm_forward_pass);
HWY_EXPORT(layer_norm_backward_pass);

void layer_norm_forward(Matrix shape, const LayerNormForward& arrays) {
  HWY_DYNAMIC_DISPATCH(layer_norm_forward_pass)(shape, arrays);
}

void layer_norm_backward(Matrix shape, const LayerNormBackward& arrays) {
  HWY_DYNAMIC_DISPATCH(layer_norm_backward_pass)(shape, arrays);
}

}  // namespace lockstep::kernels
#endif
