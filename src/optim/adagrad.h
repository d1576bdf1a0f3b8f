#pragma once

#include "optim/table.h"

namespace lockstep::optim {

/// Adagrad as torch has it, without a decay of the rate.  State: sum.
class Adagrad final : public Optimizer {
 public:
  explicit Adagrad(const OptimizerOptions& options) : epsilon_(options.epsilon < 0 ? 1e-10 : options.epsilon) {}
  [[nodiscard]] std::vector<std::string> state_names() const override { return {"sum"}; }
  void update(const UpdateContext& context, std::span<const Slice> slices) const override;

 private:
  double epsilon_;
};

}  // namespace lockstep::optim
