// Loops over whole vectors whose tails run the same operations.  Included once per SIMD level.
#include <hwy/highway.h>

#include <cstdint>
#include <cstring>

#if defined(LOCKSTEP_KERNELS_VECTORS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef LOCKSTEP_KERNELS_VECTORS_INL
#undef LOCKSTEP_KERNELS_VECTORS_INL
#else
#define LOCKSTEP_KERNELS_VECTORS_INL
#endif

HWY_BEFORE_NAMESPACE();
namespace lockstep::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;
using FloatVector = hn::Vec<Floats>;

/// All lanes of a vector.
struct Whole {};
/// The first `numel` lanes; the others load as zero and are not stored.
struct Part {
  size_t numel = 0;
};

HWY_INLINE FloatVector load(const float* from, Whole) { return hn::LoadU(Floats{}, from); }

// Through a buffer: masked loads may touch memory past the end on some levels.
HWY_INLINE FloatVector load(const float* from, Part part) {
  HWY_ALIGN float lanes[HWY_MAX_BYTES / sizeof(float)] = {};
  std::memcpy(lanes, from, part.numel * sizeof(float));
  return hn::Load(Floats{}, lanes);
}

HWY_INLINE void store(FloatVector value, float* to, Whole) { hn::StoreU(value, Floats{}, to); }

HWY_INLINE void store(FloatVector value, float* to, Part part) {
  HWY_ALIGN float lanes[HWY_MAX_BYTES / sizeof(float)];
  hn::Store(value, Floats{}, lanes);
  std::memcpy(to, lanes, part.numel * sizeof(float));
}

/// `value` in the lanes in use, `other` in the rest.
HWY_INLINE FloatVector keep_or(FloatVector value, FloatVector /*other*/, Whole) { return value; }
HWY_INLINE FloatVector keep_or(FloatVector value, FloatVector other, Part part) {
  return hn::IfThenElse(hn::FirstN(Floats{}, part.numel), value, other);
}

/// Calls body(offset, Whole) for each whole vector, then body(offset, Part) for what is left.
template <class Body>
HWY_INLINE void for_each_vector(int64_t numel, const Body& body) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(Floats{}));
  int64_t i = 0;
  for (; i + lanes <= numel; i += lanes) body(i, Whole{});
  if (i < numel) body(i, Part{static_cast<size_t>(numel - i)});
}

HWY_INLINE FloatVector set(double value) { return hn::Set(Floats{}, static_cast<float>(value)); }

HWY_INLINE float sum_of_lanes(FloatVector value) { return hn::GetLane(hn::SumOfLanes(Floats{}, value)); }

constexpr double kLeastExponent = -86.6;  // exp of it is still a normal number

/// exp(x) within 2 ulp.  Requires: kLeastExponent <= x <= 88; any other x gives some number.
HWY_INLINE FloatVector exp_in_range(FloatVector x) {
  const hn::RebindToSigned<Floats> integers;
  // x = n ln 2 + r with |r| <= ln 2 / 2; ln 2 in two parts, of which the first times n is exact.
  const auto n = hn::Round(hn::Mul(x, set(1.44269504088896341)));
  auto r = hn::NegMulAdd(n, set(0.693359375), x);
  r = hn::NegMulAdd(n, set(-2.12194440e-4), r);
  auto p = set(1.9875691500e-4);
  p = hn::MulAdd(p, r, set(1.3981999507e-3));
  p = hn::MulAdd(p, r, set(8.3334519073e-3));
  p = hn::MulAdd(p, r, set(4.1665795894e-2));
  p = hn::MulAdd(p, r, set(1.6666665459e-1));
  p = hn::MulAdd(p, r, set(5.0000001201e-1));
  p = hn::Add(hn::MulAdd(p, hn::Mul(r, r), r), set(1.0));
  const auto exponent = hn::ShiftLeft<23>(hn::ConvertTo(integers, n));
  return hn::BitCast(Floats{}, hn::Add(hn::BitCast(integers, p), exponent));
}

/// exp(x) for x <= 0: 0 below kLeastExponent, NaN for NaN.
HWY_INLINE FloatVector exp_of_negative(FloatVector x) {
  const auto least = set(kLeastExponent);
  const auto result = hn::IfThenZeroElse(hn::Lt(x, least), exp_in_range(hn::Max(x, least)));
  return hn::IfThenElse(hn::Eq(x, x), result, x);
}

}  // namespace lockstep::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
