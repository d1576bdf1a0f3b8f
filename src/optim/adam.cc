#include "optim/adam.h"

#include <algorithm>
#include <cmath>

#include "kernels/adam.h"

namespace lockstep::optim {
namespace {

// A cycled momentum can pass 1 (OneCycle's decay phase), where the average would grow without bound.
constexpr double kLargestBeta = 0.9999;

}  // namespace

Adam::Adam(const OptimizerOptions& options)
    : options_(options), epsilon_(options.epsilon < 0 ? 1e-8 : options.epsilon) {}

void Adam::update(const UpdateContext& context, std::span<const Slice> slices) const {
  kernels::AdamStep step{.lr = context.lr,
                         .beta1 = options_.beta1,
                         .beta2 = options_.beta2,
                         .epsilon = epsilon_,
                         .weight_decay = context.weight_decay,
                         .decoupled_decay = options_.adam_w_mode,
                         .gradient_divisor = context.gradient_divisor};
  if (context.momentum >= 0) step.beta1 = std::min(context.momentum, kLargestBeta);
  if (context.beta2 >= 0) step.beta2 = std::min(context.beta2, kLargestBeta);
  if (options_.bias_correction) {
    const auto t = static_cast<double>(context.applied_step);
    step.bias_correction1 = 1 - std::pow(step.beta1, t);
    step.bias_correction2 = 1 - std::pow(step.beta2, t);
  }
  for (const Slice& slice : slices) {
    kernels::adam(
        step,
        {.value = slice.value, .gradient = slice.gradient, .exp_avg = slice.states[0], .exp_avg_sq = slice.states[1]},
        slice.numel);
  }
}

}  // namespace lockstep::optim
