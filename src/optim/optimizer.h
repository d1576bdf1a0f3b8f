#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::optim {

/// One run of elements to update: all pointers are to `numel` fp32 values, 64-byte aligned at an owner slice's start.
struct Slice {
  float* value = nullptr;
  const float* gradient = nullptr;
  std::span<float* const> states{};  ///< In state_names()' order.
  int64_t numel = 0;
};

/// What every slice of a parameter group is updated with.
struct UpdateContext {
  double lr = 0;
  double momentum = -1;  ///< beta1, or SGD's momentum, where the schedule cycles it; negative: the optimizer's own.
  double beta2 = -1;     ///< Likewise.
  double weight_decay = 0;
  int64_t applied_step = 1;       ///< 1 for the first update; counts applied ones only.
  float gradient_divisor = 1.0F;  ///< Loss scale times clip factor: g is divided by it before anything else.
};

/// An update rule.  Owns no memory and keeps no state of its own; thread-safe.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  /// The states' names, torch's own ("exp_avg"); states start as zeros unless initial_state says otherwise.
  [[nodiscard]] virtual std::vector<std::string> state_names() const = 0;
  [[nodiscard]] virtual float initial_state(size_t /*state*/) const { return 0.0F; }
  /// One pass over each slice: unscale, clip, update.
  virtual void update(const UpdateContext& context, std::span<const Slice> slices) const = 0;
};

}  // namespace lockstep::optim
