#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "optim/optimizer.h"

namespace lockstep::optim {

/// Every rule's settings; a rule reads its own.  Unset ones take the rule's default, which is torch's.
struct OptimizerOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = -1;  ///< Negative: the rule's own (Adam and RMSprop 1e-8, Adagrad 1e-10).
  bool bias_correction = true;
  bool adam_w_mode = true;  ///< Adam: decoupled weight decay.  AdamW is always decoupled.
  double momentum = 0;
  double dampening = 0;
  bool nesterov = false;
  double alpha = 0.99;
  bool centered = false;
};

/// Makes an update rule by its name in any letter case: Adam, AdamW, SGD, Adagrad, RMSprop.  Throws ConfigError for an
/// unknown name, listing the legal ones, and for values out of range, listing all of them.
[[nodiscard]] std::unique_ptr<Optimizer> make_optimizer(std::string_view type, const OptimizerOptions& options);

/// The legal names.
[[nodiscard]] std::span<const std::string_view> optimizer_names();

}  // namespace lockstep::optim
