#include "kernels/exact_sum.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/check.h"

namespace lockstep::kernels {

void ExactSum::add(double value) {
  if (value == 0) return;
  const auto bits = std::bit_cast<uint64_t>(value);
  const auto exponent = static_cast<int>(bits >> 52);  // the sign bit, if set, makes it too large
  constexpr int kExponentBias = 1023 + 52;
  int lowest = exponent - kExponentBias - kLowestBit;  // position of the significand's bit 0
  uint64_t significand = (bits & ((uint64_t{1} << 52) - 1)) | (uint64_t{1} << 52);
  LOCKSTEP_CHECK(exponent > 0 && lowest + 53 <= -2 * kLowestBit);
  if (lowest < 0) {
    LOCKSTEP_CHECK(lowest > -53 && (significand & ((uint64_t{1} << -lowest) - 1)) == 0);
    significand >>= -lowest;
    lowest = 0;
  }
  const auto word = static_cast<size_t>(lowest / 32);
  const int shift = lowest % 32;
  const uint64_t low = (significand & 0xffffffffU) << shift;  // below 2^63
  const uint64_t high = (significand >> 32) << shift;         // below 2^52
  words_[word] += static_cast<int64_t>(low & 0xffffffffU);
  words_[word + 1] += static_cast<int64_t>((low >> 32) + (high & 0xffffffffU));
  words_[word + 2] += static_cast<int64_t>(high >> 32);
  if (++pending_ >= kLargestPending) carry();
}

void ExactSum::add(const ExactSum& other) {
  ExactSum carried = other;
  carried.carry();
  carry();
  for (size_t i = 0; i < kWords; ++i) words_[i] += carried.words_[i];
  carry();
}

void ExactSum::carry() {
  for (size_t i = 0; i + 1 < kWords; ++i) {
    words_[i + 1] += words_[i] >> 32;
    words_[i] &= 0xffffffff;
  }
  pending_ = 0;
}

double ExactSum::rounded() const {
  ExactSum carried = *this;
  carried.carry();
  const auto& words = carried.words_;
  size_t top = kWords - 1;
  while (top > 0 && words[top] == 0) --top;
  if (words[top] == 0) return 0;

  // The 64 bits from the highest one set, and whether any bit below them is set.
  auto leading = static_cast<uint64_t>(words[top]);
  int position = static_cast<int>(top) * 32 + kLowestBit;  // weight of leading's bit 0
  uint64_t rest = 0;
  for (size_t i = top; i-- > 0;) {
    const auto word = static_cast<uint64_t>(words[i]);
    const int room = std::min(std::countl_zero(leading), 32);
    leading = room == 32 ? (leading << 32) | word : (leading << room) | (word >> (32 - room));
    position -= room;
    if (room < 32) rest |= word & ((uint64_t{1} << (32 - room)) - 1);
  }
  const int zeros = std::countl_zero(leading);
  leading <<= zeros;
  position -= zeros;

  constexpr uint64_t kDropped = (uint64_t{1} << 11) - 1;
  constexpr uint64_t kHalf = uint64_t{1} << 10;
  const uint64_t tail = leading & kDropped;
  uint64_t kept = leading >> 11;
  if (tail > kHalf || (tail == kHalf && (rest != 0 || (kept & 1) != 0))) ++kept;
  return std::ldexp(static_cast<double>(kept), position + 11);
}

bool operator==(const ExactSum& a, const ExactSum& b) {
  ExactSum left = a;
  ExactSum right = b;
  left.carry();
  right.carry();
  return left.words_ == right.words_;
}

}  // namespace lockstep::kernels
