#pragma once

#include "optim/table.h"

namespace lockstep::optim {

/// Stochastic gradient descent as torch has it.  State: momentum_buffer, where momentum is not 0.
class Sgd final : public Optimizer {
 public:
  explicit Sgd(const OptimizerOptions& options) : options_(options) {}
  [[nodiscard]] std::vector<std::string> state_names() const override;
  void update(const UpdateContext& context, std::span<const Slice> slices) const override;

 private:
  OptimizerOptions options_;
};

}  // namespace lockstep::optim
