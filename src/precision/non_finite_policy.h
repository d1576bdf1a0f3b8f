#pragma once

#include <cstdint>
#include <string>

namespace lockstep::precision {

/// Where an infinity or NaN was seen.
struct NonFinite {
  int64_t step = 0;       ///< Attempted steps, from 1.
  int rank = -1;          ///< Who produced it; negative: unknown.
  bool overflow = false;  ///< In a gradient, which a smaller loss scale may cure.
  std::string tensor{};   ///< "loss", or "gradient of transformer.h.3.mlp.c_fc.weight"; empty: unknown.
};

/// "step 3: infinity or NaN in loss on rank 1".
[[nodiscard]] std::string describe(const NonFinite& found);

/// One policy for all modes: a step whose loss or gradients are not finite is skipped on all ranks, weights, moments
/// and schedule untouched, and too many in a row end training.  Overflows under a dynamic loss scale are the scaler's.
/// Used by one thread.
class NonFinitePolicy {
 public:
  /// max_skipped_steps: the skip in a row that ends training; 0 for no limit (dynamic loss scaling has its own).
  explicit NonFinitePolicy(int64_t max_skipped_steps);

  void applied() { skipped_in_a_row_ = 0; }
  /// Counts a skipped step and returns the one line that says so.  Throws DivergedError at the limit.
  std::string skipped(const NonFinite& found);

  [[nodiscard]] int64_t skipped_in_a_row() const { return skipped_in_a_row_; }
  void restore(int64_t skipped_in_a_row) { skipped_in_a_row_ = skipped_in_a_row; }

 private:
  int64_t max_skipped_steps_;
  int64_t skipped_in_a_row_ = 0;
};

}  // namespace lockstep::precision
