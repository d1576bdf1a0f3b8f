#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <vector>

#include "zero/parameter_store.h"

namespace lockstep::zero {

/// Raises a unit's events around its forward and, through autograd, around its backward: the unit's parameters are
/// whole while either runs.  Adds no node to autograd's graph, so the order of its sums is the same with and without.
///
/// The rule (one ready queue pops the highest sequence number first): a call's backward is over once a node that is
/// older than the call runs, or backward ends.  Used by one thread, which also runs backward.
class UnitCalls {
 public:
  /// `parameters` must outlive it.  Fetches the next unit ahead: the one after in forward, the one before in backward.
  explicit UnitCalls(ParameterStore& parameters);
  ~UnitCalls();
  UnitCalls(const UnitCalls&) = delete;
  UnitCalls& operator=(const UnitCalls&) = delete;

  /// Runs `forward` with the unit's parameters whole.  `then_backward`: its backward is what comes next, so where
  /// gradients are recorded the unit stays whole until then.
  /// Throws what `forward` throws, and CommError.
  std::vector<at::Tensor> run(int unit, bool then_backward, const std::function<std::vector<at::Tensor>()>& forward);
  /// After every backward and before weights are replaced: ends the leases that calls still hold, and waits for units
  /// that were fetched ahead and not leased.  Throws CommError.
  void finish_backward();
  /// The same after a failure, of which it must not take the place: throws nothing.
  void abandon_backward() noexcept;

 private:
  struct Open;
  class Call;
  class BeforeBackward;

  ParameterStore& parameters_;
  const std::shared_ptr<Open> open_;  // Shared with the hooks, which a graph may keep for longer.
};

}  // namespace lockstep::zero
