#pragma once

#include <cstdint>
#include <memory>
#include <optional>

namespace lockstep::lr {

/// What a schedule gives for one update.
struct Rates {
  double lr = 0;
  std::optional<double> momentum{};  ///< beta1 (SGD: momentum) where the schedule cycles it.
  std::optional<double> beta2{};
};

/// A learning-rate schedule: a pure function of the position.  Update n (from 1, applied ones only) uses at(n - 2);
/// at(-1) is the value at construction.  Thread-safe.
class Schedule {
 public:
  virtual ~Schedule() = default;
  /// base_lr: the parameter group's own rate.  Requires: position >= -1.
  [[nodiscard]] virtual Rates at(int64_t position, double base_lr, int group = 0) const = 0;
};

}  // namespace lockstep::lr
