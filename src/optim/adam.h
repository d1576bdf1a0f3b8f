#pragma once

#include "optim/table.h"

namespace lockstep::optim {

/// Adam and AdamW.  States: exp_avg, exp_avg_sq.
class Adam final : public Optimizer {
 public:
  explicit Adam(const OptimizerOptions& options);
  [[nodiscard]] std::vector<std::string> state_names() const override { return {"exp_avg", "exp_avg_sq"}; }
  void update(const UpdateContext& context, std::span<const Slice> slices) const override;

 private:
  OptimizerOptions options_;
  double epsilon_;
};

}  // namespace lockstep::optim
