#include "optim/sgd.h"

#include "kernels/updates.h"

namespace lockstep::optim {

std::vector<std::string> Sgd::state_names() const {
  if (options_.momentum == 0) return {};
  return {"momentum_buffer"};
}

void Sgd::update(const UpdateContext& context, std::span<const Slice> slices) const {
  // Without a buffer there is nothing for a cycled momentum to act on.
  const bool cycled = context.momentum >= 0 && options_.momentum != 0;
  const kernels::SgdStep step{.lr = context.lr,
                              .momentum = cycled ? context.momentum : options_.momentum,
                              .dampening = options_.dampening,
                              .weight_decay = context.weight_decay,
                              .nesterov = options_.nesterov,
                              .first = context.applied_step == 1,
                              .gradient_divisor = context.gradient_divisor};
  for (const Slice& slice : slices) {
    float* buffer = options_.momentum == 0 ? nullptr : slice.states[0];
    kernels::sgd(step, slice.value, slice.gradient, buffer, slice.numel);
  }
}

}  // namespace lockstep::optim
