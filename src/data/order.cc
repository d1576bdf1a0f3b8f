#include "data/order.h"

#include <bit>

namespace lockstep::data {
namespace {

/// The finalizer of splitmix64: every output bit depends on every input bit.
uint64_t mix(uint64_t value) {
  value += 0x9e3779b97f4a7c15;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

constexpr uint64_t low_bits(int count) { return (uint64_t{1} << count) - 1; }

}  // namespace

Permutation::Permutation(int64_t size, uint64_t seed, int64_t epoch) : size_(static_cast<uint64_t>(size)) {
  const int bits = std::bit_width(size_ - 1);
  left_bits_ = bits / 2;
  right_bits_ = bits - left_bits_;
  uint64_t key = mix(mix(seed) ^ static_cast<uint64_t>(epoch));
  for (uint64_t& round_key : round_keys_) round_key = key = mix(key);
}

int64_t Permutation::operator()(int64_t value) const {
  uint64_t walked = static_cast<uint64_t>(value);
  do {
    uint64_t left = walked >> right_bits_;
    uint64_t right = walked & low_bits(right_bits_);
    for (int round = 0; round < kRounds; round += 2) {
      left ^= mix(right ^ round_keys_[static_cast<size_t>(round)]) & low_bits(left_bits_);
      right ^= mix(left ^ round_keys_[static_cast<size_t>(round) + 1]) & low_bits(right_bits_);
    }
    walked = left << right_bits_ | right;
  } while (walked >= size_);
  return static_cast<int64_t>(walked);
}

int64_t SampleOrder::sample(int64_t position) const {
  const int64_t within_epoch = position % samples;
  return shuffle ? Permutation(samples, seed, epoch(position))(within_epoch) : within_epoch;
}

}  // namespace lockstep::data
