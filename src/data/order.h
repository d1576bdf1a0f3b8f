#pragma once

#include <array>
#include <cstdint>

namespace lockstep::data {

/// A permutation of 0 .. size-1 drawn from (seed, epoch), evaluated one value at a time: nothing is stored, whatever
/// the size.  A Feistel network permutes the smallest power of two that holds `size`; a value that falls outside is
/// permuted again until it is inside (less than one extra turn on average), which keeps the map one-to-one.
///
/// Checkpoints name only the seed and a position, so this map is part of their format: it never changes.
class Permutation {
 public:
  /// Requires: size > 0, epoch >= 0.
  Permutation(int64_t size, uint64_t seed, int64_t epoch);
  /// Requires: 0 <= value < size.
  [[nodiscard]] int64_t operator()(int64_t value) const;

 private:
  // Small domains need many rounds before their permutations look unrelated; a sample costs well under 1 us all the
  // same.
  static constexpr int kRounds = 12;

  uint64_t size_;
  int left_bits_;
  int right_bits_;
  std::array<uint64_t, kRounds> round_keys_{};
};

/// Which samples the ranks see, and when.
struct SampleOrder {
  int64_t samples = 1;  ///< Of one epoch, n.
  int64_t micro_batch = 1;
  int world = 1;
  uint64_t seed = 0;
  bool shuffle = true;

  /// k = rank + world * (global_micro_step * micro_batch + slot).
  [[nodiscard]] int64_t position(int64_t global_micro_step, int rank, int64_t slot) const {
    return rank + world * (global_micro_step * micro_batch + slot);
  }
  [[nodiscard]] int64_t epoch(int64_t position) const { return position / samples; }
  /// pi_e(k mod n): a number from 0 to samples - 1.
  [[nodiscard]] int64_t sample(int64_t position) const;
};

}  // namespace lockstep::data
