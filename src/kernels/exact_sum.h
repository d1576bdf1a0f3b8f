#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace lockstep::kernels {

/// A sum without rounding: a fixed-point number wide enough for every sum of squares of fp32 values, so its value does
/// not depend on the order of the additions or on who made them.  Trivially copyable: ranks exchange its bytes and
/// add.  Starts at zero.
class ExactSum {
 public:
  /// Adds one value.  Requires: zero, or 2^-268 <= value < 2^320, or a multiple of 2^-320 below that (every fp64 sum of
  /// squares of finite fp32 values is).
  void add(double value);
  void add(const ExactSum& other);
  /// The sum, rounded once, to nearest, ties to even.
  [[nodiscard]] double rounded() const;
  friend bool operator==(const ExactSum& a, const ExactSum& b);

 private:
  static constexpr int kLowestBit = -320;  // weight of bit 0 of words_[0]
  static constexpr size_t kWords = 22;
  static constexpr int64_t kLargestPending = int64_t{1} << 30;

  // Brings every word but the last into [0, 2^32).
  void carry();

  std::array<int64_t, kWords> words_{};  // 32 bits each, little end first; the upper halves hold carries not yet moved
  int64_t pending_ = 0;                  // additions since the last carry()
};

}  // namespace lockstep::kernels
