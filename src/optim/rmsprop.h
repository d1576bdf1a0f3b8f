#pragma once

#include "optim/table.h"

namespace lockstep::optim {

/// RMSprop as torch has it.  States: square_avg, then momentum_buffer where momentum is not 0, then grad_avg where
/// centered.
class Rmsprop final : public Optimizer {
 public:
  explicit Rmsprop(const OptimizerOptions& options)
      : options_(options), epsilon_(options.epsilon < 0 ? 1e-8 : options.epsilon) {}
  [[nodiscard]] std::vector<std::string> state_names() const override;
  void update(const UpdateContext& context, std::span<const Slice> slices) const override;

 private:
  OptimizerOptions options_;
  double epsilon_;
};

}  // namespace lockstep::optim
