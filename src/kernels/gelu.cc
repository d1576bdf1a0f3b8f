#include "kernels/gelu.h"

#include <algorithm>
#include <vector>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gelu.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::kernels::HWY_NAMESPACE {

struct Gelu {
  FloatVector value;
  FloatVector derivative;
};

// gelu(u) = u s with s = (1 + tanh z) / 2 = 1 / (1 + exp(-2 z)), z = sqrt(2 / pi) (u + 0.044715 u^3).
HWY_INLINE Gelu gelu_of(FloatVector u) {
  constexpr double kRoot = 0.79788456080286535588;
  constexpr double kCubic = 0.044715;
  const auto square = hn::Mul(u, u);
  const auto minus_2z = hn::Mul(u, hn::MulAdd(square, set(-2 * kRoot * kCubic), set(-2 * kRoot)));
  // Bounded: at the upper end s is below 1e-37 and e s is 1, at the lower end s is 1.
  const auto e = exp_in_range(hn::Max(hn::Min(minus_2z, set(87.0)), set(kLeastExponent)));
  const auto s = hn::Div(set(1.0), hn::Add(set(1.0), e));
  const auto slope = hn::MulAdd(square, set(6 * kRoot * kCubic), set(2 * kRoot));
  const auto value = hn::Mul(u, s);
  return {value, hn::MulAdd(hn::Mul(value, hn::Mul(e, s)), slope, s)};
}

template <class Body>
HWY_INLINE void for_each_biased(Matrix shape, const float* x, const float* bias, const Body& body) {
  for (int64_t row = 0; row < shape.rows; ++row) {
    const int64_t start = row * shape.columns;
    if (bias == nullptr) {
      for_each_vector(shape.columns,
                      [&](int64_t c, auto part) HWY_ATTR { body(start + c, part, load(x + start + c, part)); });
    } else {
      for_each_vector(shape.columns, [&](int64_t c, auto part) HWY_ATTR {
        body(start + c, part, hn::Add(load(x + start + c, part), load(bias + c, part)));
      });
    }
  }
}

void gelu_forward_pass(Matrix shape, const float* x, const float* bias, float* y, float* derivative) {
  for_each_biased(shape, x, bias, [&](int64_t i, auto part, FloatVector u) HWY_ATTR {
    const Gelu gelu = gelu_of(u);
    store(gelu.value, y + i, part);
    store(gelu.derivative, derivative + i, part);
  });
}

void gelu_pass(Matrix shape, const float* x, const float* bias, float* y) {
  for_each_biased(shape, x, bias,
                  [&](int64_t i, auto part, FloatVector u) HWY_ATTR { store(gelu_of(u).value, y + i, part); });
}

// Calls row(index, partial sums) for each row, and adds the partial sums to `sums` after every run of rows.
template <class Row>
HWY_INLINE void in_runs(Matrix shape, float* sums, const Row& row) {
  constexpr int64_t kRun = 64;
  std::vector<float> partial(static_cast<size_t>(shape.columns));
  for (int64_t first = 0; first < shape.rows; first += kRun) {
    std::fill(partial.begin(), partial.end(), 0.0F);
    for (int64_t r = first; r < std::min(first + kRun, shape.rows); ++r) row(r, partial.data());
    for_each_vector(shape.columns, [&](int64_t c, auto part) HWY_ATTR {
      store(hn::Add(load(sums + c, part), load(partial.data() + c, part)), sums + c, part);
    });
  }
}

void gelu_backward_pass(Matrix shape, const float* dy, const float* derivative, float* dx, float* bias_gradient) {
  if (bias_gradient == nullptr) {
    for_each_vector(shape.rows * shape.columns, [&](int64_t i, auto part) HWY_ATTR {
      store(hn::Mul(load(dy + i, part), load(derivative + i, part)), dx + i, part);
    });
    return;
  }
  in_runs(shape, bias_gradient, [&](int64_t row, float* partial) HWY_ATTR {
    const int64_t start = row * shape.columns;
    for_each_vector(shape.columns, [&](int64_t c, auto part) HWY_ATTR {
      const auto product = hn::Mul(load(dy + start + c, part), load(derivative + start + c, part));
      store(product, dx + start + c, part);
      store(hn::Add(load(partial + c, part), product), partial + c, part);
    });
  });
}

void add_column_sums_pass(Matrix shape, const float* x, float* sums) {
  in_runs(shape, sums, [&](int64_t row, float* partial) HWY_ATTR {
    const float* from = x + row * shape.columns;
    for_each_vector(shape.columns, [&](int64_t c, auto part) HWY_ATTR {
      store(hn::Add(load(partial + c, part), load(from + c, part)), partial + c, part);
    });
  });
}

}  // namespace lockstep::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::kernels {

HWY_EXPORT(gelu_forward_pass);
HWY_EXPORT(gelu_pass);
HWY_EXPORT(gelu_backward_pass);
HWY_EXPORT(add_column_sums_pass);

void gelu_forward(Matrix shape, const float* x, const float* bias, float* y, float* derivative) {
  HWY_DYNAMIC_DISPATCH(gelu_forward_pass)(shape, x, bias, y, derivative);
}

void gelu(Matrix shape, const float* x, const float* bias, float* y) {
  HWY_DYNAMIC_DISPATCH(gelu_pass)(shape, x, bias, y);
}

void gelu_backward(Matrix shape, const float* dy, const float* derivative, float* dx, float* bias_gradient) {
  HWY_DYNAMIC_DISPATCH(gelu_backward_pass)(shape, dy, derivative, dx, bias_gradient);
}

void add_column_sums(Matrix shape, const float* x, float* sums) {
  HWY_DYNAMIC_DISPATCH(add_column_sums_pass)(shape, x, sums);
}

}  // namespace lockstep::kernels
#endif
