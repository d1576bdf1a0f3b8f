#include "bench_loops.h"

#include <chrono>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "../cli/bench_loops.cc"  // From src/, which is searched.
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace lockstep::cli::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using Floats = hn::ScalableTag<float>;

// The compiler must not turn a copy loop into a call of memcpy, which chooses its own kind of store.
HWY_INLINE void keep_loop() { asm volatile(""); }

float read_loop(const float* HWY_RESTRICT from, size_t numel) {
  const Floats d;
  const size_t lanes = hn::Lanes(d);
  auto sum0 = hn::Zero(d), sum1 = sum0, sum2 = sum0, sum3 = sum0, sum4 = sum0, sum5 = sum0, sum6 = sum0, sum7 = sum0;
  for (size_t i = 0; i < numel; i += 8 * lanes) {
    sum0 = hn::Add(sum0, hn::Load(d, from + i));
    sum1 = hn::Add(sum1, hn::Load(d, from + i + lanes));
    sum2 = hn::Add(sum2, hn::Load(d, from + i + 2 * lanes));
    sum3 = hn::Add(sum3, hn::Load(d, from + i + 3 * lanes));
    sum4 = hn::Add(sum4, hn::Load(d, from + i + 4 * lanes));
    sum5 = hn::Add(sum5, hn::Load(d, from + i + 5 * lanes));
    sum6 = hn::Add(sum6, hn::Load(d, from + i + 6 * lanes));
    sum7 = hn::Add(sum7, hn::Load(d, from + i + 7 * lanes));
  }
  const auto low = hn::Add(hn::Add(sum0, sum1), hn::Add(sum2, sum3));
  const auto high = hn::Add(hn::Add(sum4, sum5), hn::Add(sum6, sum7));
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(low, high)));
}

void copy_loop(float* HWY_RESTRICT to, const float* HWY_RESTRICT from, size_t numel) {
  const Floats d;
  const size_t lanes = hn::Lanes(d);
  for (size_t i = 0; i < numel; i += 4 * lanes) {
    keep_loop();
    for (size_t k = 0; k < 4; ++k) hn::Store(hn::Load(d, from + i + k * lanes), d, to + i + k * lanes);
  }
}

void streaming_copy_loop(float* HWY_RESTRICT to, const float* HWY_RESTRICT from, size_t numel) {
  const Floats d;
  const size_t lanes = hn::Lanes(d);
  for (size_t i = 0; i < numel; i += 4 * lanes)
    for (size_t k = 0; k < 4; ++k) hn::Stream(hn::Load(d, from + i + k * lanes), d, to + i + k * lanes);
  hwy::FlushStream();
}

void update_loop(float* to, float factor, size_t numel) {
  const Floats d;
  const size_t lanes = hn::Lanes(d);
  const auto factors = hn::Set(d, factor);
  for (size_t i = 0; i < numel; i += 4 * lanes)
    for (size_t k = 0; k < 4; ++k) hn::Store(hn::Mul(hn::Load(d, to + i + k * lanes), factors), d, to + i + k * lanes);
}

void four_streams_loop(float* array, float factor, size_t numel) {
  const Floats d;
  const size_t lanes = hn::Lanes(d);
  const auto factors = hn::Set(d, factor);
  const size_t quarter = numel / 4;
  const float* HWY_RESTRICT a = array;
  float* HWY_RESTRICT b = array + quarter;
  float* HWY_RESTRICT c = array + 2 * quarter;
  float* HWY_RESTRICT e = array + 3 * quarter;
  for (size_t i = 0; i < quarter; i += lanes) {
    const auto read = hn::Load(d, a + i);
    hn::Store(hn::MulAdd(hn::Load(d, b + i), factors, read), d, b + i);
    hn::Store(hn::MulAdd(hn::Load(d, c + i), factors, read), d, c + i);
    hn::Store(hn::MulAdd(hn::Load(d, e + i), factors, read), d, e + i);
  }
}

// Twelve starting values that the compiler does not know: equal chains could be computed once, known ones never.
// x * factor + addend tends to a fixed point, far from denormals and infinities.
float multiply_add_loop(int64_t iterations, const volatile float* starts, float factor, float addend) {
  const Floats d;
  const auto f = hn::Set(d, factor);
  const auto a = hn::Set(d, addend);
  auto x0 = hn::Set(d, starts[0]), x1 = hn::Set(d, starts[1]), x2 = hn::Set(d, starts[2]), x3 = hn::Set(d, starts[3]);
  auto x4 = hn::Set(d, starts[4]), x5 = hn::Set(d, starts[5]), x6 = hn::Set(d, starts[6]), x7 = hn::Set(d, starts[7]);
  auto x8 = hn::Set(d, starts[8]), x9 = hn::Set(d, starts[9]), x10 = hn::Set(d, starts[10]),
       x11 = hn::Set(d, starts[11]);
  for (int64_t i = 0; i < iterations; ++i) {
    x0 = hn::MulAdd(x0, f, a);
    x1 = hn::MulAdd(x1, f, a);
    x2 = hn::MulAdd(x2, f, a);
    x3 = hn::MulAdd(x3, f, a);
    x4 = hn::MulAdd(x4, f, a);
    x5 = hn::MulAdd(x5, f, a);
    x6 = hn::MulAdd(x6, f, a);
    x7 = hn::MulAdd(x7, f, a);
    x8 = hn::MulAdd(x8, f, a);
    x9 = hn::MulAdd(x9, f, a);
    x10 = hn::MulAdd(x10, f, a);
    x11 = hn::MulAdd(x11, f, a);
  }
  const auto low = hn::Add(hn::Add(hn::Add(x0, x1), hn::Add(x2, x3)), hn::Add(x4, x5));
  const auto high = hn::Add(hn::Add(hn::Add(x6, x7), hn::Add(x8, x9)), hn::Add(x10, x11));
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(low, high)));
}

int64_t lane_count() { return static_cast<int64_t>(hn::Lanes(Floats())); }

}  // namespace lockstep::cli::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::cli {

HWY_EXPORT(read_loop);
HWY_EXPORT(copy_loop);
HWY_EXPORT(streaming_copy_loop);
HWY_EXPORT(update_loop);
HWY_EXPORT(four_streams_loop);
HWY_EXPORT(multiply_add_loop);
HWY_EXPORT(lane_count);

float read_pass(const float* from, size_t numel) { return HWY_DYNAMIC_DISPATCH(read_loop)(from, numel); }
void copy_pass(float* to, const float* from, size_t numel) { HWY_DYNAMIC_DISPATCH(copy_loop)(to, from, numel); }
void streaming_copy_pass(float* to, const float* from, size_t numel) {
  HWY_DYNAMIC_DISPATCH(streaming_copy_loop)(to, from, numel);
}
void update_pass(float* to, float factor, size_t numel) { HWY_DYNAMIC_DISPATCH(update_loop)(to, factor, numel); }
void four_streams_pass(float* array, float factor, size_t numel) {
  HWY_DYNAMIC_DISPATCH(four_streams_loop)(array, factor, numel);
}

float multiply_add_pass(int64_t iterations) {
  static const volatile float kStarts[12] = {1.0F, 1.1F, 1.2F, 1.3F, 1.4F, 1.5F, 1.6F, 1.7F, 1.8F, 1.9F, 2.0F, 2.1F};
  static const volatile float kFactorAndAddend[2] = {0.5F, 0.5F};
  return HWY_DYNAMIC_DISPATCH(multiply_add_loop)(iterations, kStarts, kFactorAndAddend[0], kFactorAndAddend[1]);
}

int64_t multiply_add_flops() { return 12 * 2 * HWY_DYNAMIC_DISPATCH(lane_count)(); }

double clock_hz() {
  using Clock = std::chrono::steady_clock;
  constexpr int64_t kIterations = 100'000;  // Half a millisecond: short enough to go undisturbed.
  constexpr int kUnrolled = 16;
  uint64_t sum = 0;
  uint64_t addend = 3;
  asm volatile("" : "+r"(addend));  // Some cores add small constants for nothing.
  const auto start = Clock::now();
  for (int64_t i = 0; i < kIterations; ++i)
#pragma GCC unroll 16
    for (int k = 0; k < kUnrolled; ++k) {
      sum += addend;
      asm volatile("" : "+r"(sum));
    }
  return kIterations * kUnrolled / std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace lockstep::cli
#endif  // HWY_ONCE
