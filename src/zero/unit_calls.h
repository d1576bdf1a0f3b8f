#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <vector>

#include "zero/parameter_store.h"

namespace lockstep::zero {

class OperatorObserver;

/// Makes a layer's units whole around its forward and, through autograd, around its backward; an observed layer's as
/// operators take them.  Adds no node to autograd's graph, so the order of its sums is the same with and without.
///
/// The rule (one ready queue pops the highest sequence number first): a call's backward is over once a node that is
/// older than the call runs, or backward ends.  Used by one thread, which also runs backward.
class UnitCalls {
 public:
  /// `parameters` must outlive it.  Fetches the next layer ahead: the one after in forward, the one before in backward.
  /// max_live_numel: elements of observed layers that are whole at once.
  UnitCalls(ParameterStore& parameters, int64_t max_live_numel);
  ~UnitCalls();
  UnitCalls(const UnitCalls&) = delete;
  UnitCalls& operator=(const UnitCalls&) = delete;

  /// Runs `forward` with the layer's parameters whole.  `then_backward`: its backward is what comes next, so where
  /// gradients are recorded they stay whole until then.
  /// Throws what `forward` throws, and CommError.
  std::vector<at::Tensor> run(int layer, bool then_backward, const std::function<std::vector<at::Tensor>()>& forward);
  /// Runs autograd's backward, then ends what it and the forwards before it still hold, also where it throws.
  void run_backward(const std::function<void()>& backward);
  /// Before weights are replaced: ends the leases that calls still hold, and waits for units
  /// that were fetched ahead and not leased.  Throws CommError.
  void finish_backward();

 private:
  /// finish_backward() after a failure, of which it must not take the place: throws nothing.
  void abandon_backward() noexcept;
  void observe(const std::function<void()>& body);

  struct Open;
  class Call;
  class BeforeBackward;

  ParameterStore& parameters_;
  std::unique_ptr<OperatorObserver> observer_;  // Null where no layer is observed.
  const std::shared_ptr<Open> open_;            // Shared with the hooks, which a graph may keep for longer.
};

}  // namespace lockstep::zero
