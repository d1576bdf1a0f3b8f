#include "kernels/casts.h"

#include <bit>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/casts.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/reference.h"
#include "kernels/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::kernels::HWY_NAMESPACE {

using Words = hn::RebindToUnsigned<Floats>;
using Halves = hn::Rebind<uint16_t, Floats>;
using HalfVector = hn::Vec<Halves>;

HWY_INLINE HalfVector load_halves(const uint16_t* from, Whole) { return hn::LoadU(Halves{}, from); }

HWY_INLINE HalfVector load_halves(const uint16_t* from, Part part) {
  HWY_ALIGN uint16_t lanes[HWY_MAX_BYTES / sizeof(float)] = {};
  std::memcpy(lanes, from, part.numel * sizeof(uint16_t));
  return hn::Load(Halves{}, lanes);
}

HWY_INLINE void store_halves(HalfVector value, uint16_t* to, Whole) { hn::StoreU(value, Halves{}, to); }

HWY_INLINE void store_halves(HalfVector value, uint16_t* to, Part part) {
  HWY_ALIGN uint16_t lanes[HWY_MAX_BYTES / sizeof(float)];
  hn::Store(value, Halves{}, lanes);
  std::memcpy(to, lanes, part.numel * sizeof(uint16_t));
}

void widen_bf16_pass(const uint16_t* from, float* to, int64_t numel) {
  for_each_vector(numel, [&](int64_t i, auto part) HWY_ATTR {
    const auto words = hn::ShiftLeft<16>(hn::PromoteTo(Words{}, load_halves(from + i, part)));
    store(hn::BitCast(Floats{}, words), to + i, part);
  });
}

void narrow_bf16_pass(const float* from, uint16_t* to, int64_t numel) {
  const hn::RebindToSigned<Floats> integers;
  const auto quiet = hn::Set(Words{}, 0x7FC0);
  const auto half = hn::Set(Words{}, 0x7FFF);
  const auto one = hn::Set(Words{}, 1);
  for_each_vector(numel, [&](int64_t i, auto part) HWY_ATTR {
    const auto value = load(from + i, part);
    const auto words = hn::BitCast(Words{}, value);
    const auto odd = hn::And(hn::ShiftRight<16>(words), one);
    const auto rounded = hn::ShiftRight<16>(hn::Add(words, hn::Add(half, odd)));
    const auto is_nan = hn::RebindMask(Words{}, hn::Ne(value, value));
    const auto result = hn::IfThenElse(is_nan, quiet, rounded);
    // Below 2^16, so that the saturating step from signed words changes nothing.
    store_halves(hn::DemoteTo(Halves{}, hn::BitCast(integers, result)), to + i, part);
  });
}

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL || HWY_TARGET == HWY_NEON
void widen_fp16_pass(const uint16_t* from, float* to, int64_t numel) {
  const hn::Rebind<hwy::float16_t, Floats> halves;
  for_each_vector(numel, [&](int64_t i, auto part) HWY_ATTR {
    store(hn::PromoteTo(Floats{}, hn::BitCast(halves, load_halves(from + i, part))), to + i, part);
  });
}

void narrow_fp16_pass(const float* from, uint16_t* to, int64_t numel) {
  const hn::Rebind<hwy::float16_t, Floats> halves;
  for_each_vector(numel, [&](int64_t i, auto part) HWY_ATTR {
    store_halves(hn::BitCast(Halves{}, hn::DemoteTo(halves, load(from + i, part))), to + i, part);
  });
}
#else
// These levels lack the conversion, and what stands in for it does not round.
void widen_fp16_pass(const uint16_t* from, float* to, int64_t numel) {
  reference::widen(HalfType::fp16, from, to, numel);
}
void narrow_fp16_pass(const float* from, uint16_t* to, int64_t numel) {
  reference::narrow(HalfType::fp16, from, to, numel);
}
#endif

}  // namespace lockstep::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::kernels {

HWY_EXPORT(widen_bf16_pass);
HWY_EXPORT(narrow_bf16_pass);
HWY_EXPORT(widen_fp16_pass);
HWY_EXPORT(narrow_fp16_pass);

void widen(HalfType type, const uint16_t* from, float* to, int64_t numel) {
  if (type == HalfType::bf16)
    HWY_DYNAMIC_DISPATCH(widen_bf16_pass)(from, to, numel);
  else
    HWY_DYNAMIC_DISPATCH(widen_fp16_pass)(from, to, numel);
}

void narrow(HalfType type, const float* from, uint16_t* to, int64_t numel) {
  if (type == HalfType::bf16)
    HWY_DYNAMIC_DISPATCH(narrow_bf16_pass)(from, to, numel);
  else
    HWY_DYNAMIC_DISPATCH(narrow_fp16_pass)(from, to, numel);
}

}  // namespace lockstep::kernels
#endif
