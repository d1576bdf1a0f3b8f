#include "kernels/sums.h"

#include <hwy/cache_control.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/sums.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::kernels::HWY_NAMESPACE {

// Zero in each lane that is finite, else NaN.
HWY_INLINE FloatVector finite_check(FloatVector value) { return hn::Mul(value, hn::Zero(Floats{})); }

HWY_INLINE bool all_zero(FloatVector checks) { return hn::AllTrue(Floats{}, hn::Eq(checks, hn::Zero(Floats{}))); }

HWY_INLINE void mark_non_finite(std::span<const float* const> contributions, int64_t first, int64_t numel,
                                std::span<uint8_t> non_finite) {
  for (size_t rank = 0; rank < contributions.size(); ++rank) {
    for (int64_t i = first; i < first + numel; ++i) {
      if (!std::isfinite(contributions[rank][i])) non_finite[rank] = 1;
    }
  }
}

bool sum_mean_pass(std::span<const float* const> contributions, int64_t numel, float* mean,
                   std::span<uint8_t> non_finite) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(Floats{}));
  const auto factor = hn::Set(Floats{}, 1.0F / static_cast<float>(contributions.size()));
  bool finite = true;
  int64_t done = 0;
  // A non-finite contribution always makes its mean non-finite, so only then are the contributions looked at.
  for (; done + 4 * lanes <= numel; done += 4 * lanes) {
    const float* from = contributions[0] + done;
    auto sum0 = hn::LoadU(Floats{}, from);
    auto sum1 = hn::LoadU(Floats{}, from + lanes);
    auto sum2 = hn::LoadU(Floats{}, from + 2 * lanes);
    auto sum3 = hn::LoadU(Floats{}, from + 3 * lanes);
    for (size_t rank = 1; rank < contributions.size(); ++rank) {
      from = contributions[rank] + done;
      sum0 = hn::Add(sum0, hn::LoadU(Floats{}, from));
      sum1 = hn::Add(sum1, hn::LoadU(Floats{}, from + lanes));
      sum2 = hn::Add(sum2, hn::LoadU(Floats{}, from + 2 * lanes));
      sum3 = hn::Add(sum3, hn::LoadU(Floats{}, from + 3 * lanes));
    }
    sum0 = hn::Mul(sum0, factor);
    sum1 = hn::Mul(sum1, factor);
    sum2 = hn::Mul(sum2, factor);
    sum3 = hn::Mul(sum3, factor);
    const auto checks =
        hn::Add(hn::Add(finite_check(sum0), finite_check(sum1)), hn::Add(finite_check(sum2), finite_check(sum3)));
    if (HWY_UNLIKELY(!all_zero(checks))) {
      finite = false;
      mark_non_finite(contributions, done, 4 * lanes, non_finite);
    }
    hn::StoreU(sum0, Floats{}, mean + done);
    hn::StoreU(sum1, Floats{}, mean + done + lanes);
    hn::StoreU(sum2, Floats{}, mean + done + 2 * lanes);
    hn::StoreU(sum3, Floats{}, mean + done + 3 * lanes);
  }
  for_each_vector(numel - done, [&](int64_t offset, auto part) HWY_ATTR {
    const int64_t i = done + offset;
    auto sum = load(contributions[0] + i, part);
    for (size_t rank = 1; rank < contributions.size(); ++rank) {
      sum = hn::Add(sum, load(contributions[rank] + i, part));
    }
    sum = hn::Mul(sum, factor);
    if (HWY_UNLIKELY(!all_zero(finite_check(sum)))) {
      finite = false;
      mark_non_finite(contributions, i, std::min(lanes, numel - i), non_finite);
    }
    store(sum, mean + i, part);
  });
  return finite;
}

// Eight partial sums, of the elements whose index is 0..7 modulo 8, each in ascending order, then added as a tree.
// Squares of fp32 are exact in fp64, so a fused multiply-add changes nothing: equal bits on every level.
HWY_INLINE double block_squares(const float* block) {
  const hn::CappedTag<double, 4> doubles;
  const hn::Rebind<float, decltype(doubles)> floats;
  HWY_ALIGN double partial[4];
  const size_t lanes = hn::Lanes(doubles);
  for (size_t first = 0; first < 4; first += lanes) {
    auto low = hn::Zero(doubles);
    auto high = hn::Zero(doubles);
    const float* from = block + first;
    for (int64_t i = 0; i < kBlockNumel; i += 8) {
      const auto x = hn::PromoteTo(doubles, hn::LoadU(floats, from + i));
      const auto y = hn::PromoteTo(doubles, hn::LoadU(floats, from + i + 4));
      low = hn::MulAdd(x, x, low);
      high = hn::MulAdd(y, y, high);
    }
    hn::Store(hn::Add(low, high), doubles, partial + first);
  }
  return (partial[0] + partial[2]) + (partial[1] + partial[3]);
}

bool add_squares_pass(const float* values, int64_t numel, ExactSum& sum) {
  bool finite = true;
  // Squares of finite fp32 values never overflow fp64.
  const auto add = [&](double squares) {
    if (HWY_LIKELY(std::isfinite(squares))) {
      sum.add(squares);
    } else {
      finite = false;
    }
  };
  int64_t i = 0;
  for (; i + kBlockNumel <= numel; i += kBlockNumel) {
    // The additions to the sum are too long for the processor to look far enough ahead by itself.
    const float* ahead = values + std::min(i + 16 * kBlockNumel, numel - kBlockNumel);
    for (int64_t line = 0; line < kBlockNumel; line += 16) hwy::Prefetch(ahead + line);
    add(block_squares(values + i));
  }
  if (i < numel) {
    float block[kBlockNumel] = {};
    std::memcpy(block, values + i, static_cast<size_t>(numel - i) * sizeof(float));
    add(block_squares(block));
  }
  return finite;
}

bool all_finite_pass(const float* values, int64_t numel) {
  auto checks = hn::Zero(Floats{});
  for_each_vector(
      numel, [&](int64_t i, auto part) HWY_ATTR { checks = hn::Add(checks, finite_check(load(values + i, part))); });
  return all_zero(checks);
}

void accumulate_pass(float* to, const float* from, int64_t numel) {
  for_each_vector(numel, [&](int64_t i, auto part)
                             HWY_ATTR { store(hn::Add(load(to + i, part), load(from + i, part)), to + i, part); });
}

// The C library's copy falls back on string instructions at these lengths, which cost up to ten times a plain loop on
// some processors, depending on the two addresses.
void copy_pass(float* to, const float* from, int64_t numel) {
  for_each_vector(numel, [&](int64_t i, auto part) HWY_ATTR { store(load(from + i, part), to + i, part); });
}

void scale_pass(float* values, float factor, int64_t numel) {
  const auto factors = hn::Set(Floats{}, factor);
  for_each_vector(
      numel, [&](int64_t i, auto part) HWY_ATTR { store(hn::Mul(load(values + i, part), factors), values + i, part); });
}

}  // namespace lockstep::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::kernels {

HWY_EXPORT(sum_mean_pass);
HWY_EXPORT(add_squares_pass);
HWY_EXPORT(all_finite_pass);
HWY_EXPORT(accumulate_pass);
HWY_EXPORT(copy_pass);
HWY_EXPORT(scale_pass);

bool sum_mean(std::span<const float* const> contributions, int64_t numel, float* mean, std::span<uint8_t> non_finite) {
  return HWY_DYNAMIC_DISPATCH(sum_mean_pass)(contributions, numel, mean, non_finite);
}

bool add_squares(const float* values, int64_t numel, ExactSum& sum) {
  return HWY_DYNAMIC_DISPATCH(add_squares_pass)(values, numel, sum);
}

bool all_finite(const float* values, int64_t numel) { return HWY_DYNAMIC_DISPATCH(all_finite_pass)(values, numel); }

void accumulate(float* to, const float* from, int64_t numel) { HWY_DYNAMIC_DISPATCH(accumulate_pass)(to, from, numel); }

void scale(float* values, float factor, int64_t numel) { HWY_DYNAMIC_DISPATCH(scale_pass)(values, factor, numel); }

void copy(float* to, const float* from, int64_t numel) { HWY_DYNAMIC_DISPATCH(copy_pass)(to, from, numel); }

}  // namespace lockstep::kernels
#endif
