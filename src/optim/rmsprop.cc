#include "optim/rmsprop.h"

#include "kernels/updates.h"

namespace lockstep::optim {

std::vector<std::string> Rmsprop::state_names() const {
  std::vector<std::string> names{"square_avg"};
  if (options_.momentum != 0) names.emplace_back("momentum_buffer");
  if (options_.centered) names.emplace_back("grad_avg");
  return names;
}

void Rmsprop::update(const UpdateContext& context, std::span<const Slice> slices) const {
  const bool has_buffer = options_.momentum != 0;
  const kernels::RmspropStep step{
      .lr = context.lr,
      .alpha = options_.alpha,
      .epsilon = epsilon_,
      .weight_decay = context.weight_decay,
      .momentum = has_buffer && context.momentum >= 0 ? context.momentum : options_.momentum,
      .centered = options_.centered,
      .gradient_divisor = context.gradient_divisor};
  for (const Slice& slice : slices) {
    kernels::rmsprop(step,
                     {.value = slice.value,
                      .gradient = slice.gradient,
                      .square_avg = slice.states[0],
                      .momentum_buffer = has_buffer ? slice.states[1] : nullptr,
                      .grad_avg = options_.centered ? slice.states[has_buffer ? 2 : 1] : nullptr},
                     slice.numel);
  }
}

}  // namespace lockstep::optim
