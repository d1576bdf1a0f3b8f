#include "optim/adagrad.h"

#include "kernels/updates.h"

namespace lockstep::optim {

void Adagrad::update(const UpdateContext& context, std::span<const Slice> slices) const {
  const kernels::AdagradStep step{.lr = context.lr,
                                  .epsilon = epsilon_,
                                  .weight_decay = context.weight_decay,
                                  .gradient_divisor = context.gradient_divisor};
  for (const Slice& slice : slices) {
    kernels::adagrad(step, slice.value, slice.gradient, slice.states[0], slice.numel);
  }
}

}  // namespace lockstep::optim
