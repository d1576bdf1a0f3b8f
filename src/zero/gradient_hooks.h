#pragma once

#include <functional>
#include <span>

namespace at {
class Tensor;
}

namespace lockstep::zero {

/// Calls `ready(index)` each time backward has put a gradient into leaves[index].grad(), on the thread that runs
/// backward.  Leaves that need no gradient are passed over.  `ready` must outlive the leaves or the next call, which
/// replaces it; null removes the hooks.
void on_gradient_ready(std::span<const at::Tensor> leaves, const std::function<void(int index)>* ready);

}  // namespace lockstep::zero
