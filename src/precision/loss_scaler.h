#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "precision/non_finite_policy.h"

namespace lockstep::precision {

struct LossScalerOptions {
  bool dynamic = false;
  double scale = 1;                                            ///< The first one where dynamic, else the only one.
  int64_t window = 1000;                                       ///< Clean steps between doublings.
  int64_t hysteresis = 2;                                      ///< Overflows tolerated before halving.
  bool consecutive_hysteresis = false;                         ///< Any clean step refills the tolerance.
  double max_scale = std::numeric_limits<double>::infinity();  ///< Where doubling stops.
  double min_scale = 1;  ///< Floor; an overflow there with the tolerance spent ends training.
};

/// What a checkpoint keeps; the limits come from the config.
struct LossScalerState {
  double scale = 1;
  int64_t steps = 0;
  int64_t last_overflow = -1;
  int64_t tolerance = 2;
  bool operator==(const LossScalerState&) const = default;
};

/// The factor of the loss before backward, in every mode (1 outside fp16).  Used by one thread.
class LossScaler {
 public:
  /// Throws ConfigError listing every value out of range.
  explicit LossScaler(const LossScalerOptions& options);

  [[nodiscard]] double scale() const { return state_.scale; }
  [[nodiscard]] bool is_dynamic() const { return options_.dynamic; }
  /// Once per optimizer step that all ranks agreed to apply.
  void applied();
  /// Once per step that overflowed on any rank; returns the one line that says so.
  /// Throws DivergedError at the floor with the tolerance spent; the state is then unchanged.  Requires: is_dynamic().
  std::string overflowed(const NonFinite& found);

  [[nodiscard]] const LossScalerState& state() const { return state_; }
  /// A fixed scale stays the config's own.  A dynamic one below the config's floor is raised to it.
  void restore(const LossScalerState& state);

 private:
  LossScalerOptions options_;
  LossScalerState state_;
};

}  // namespace lockstep::precision
