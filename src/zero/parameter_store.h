#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lockstep/communicator.h"
#include "lockstep/layer.h"
#include "plan/plan.h"
#include "zero/gathered_units.h"

namespace lockstep::zero {

/// Copies a parameter's first values into a contiguous fp32 tensor and returns true, or returns false to leave it to
/// the layer's own initialization.
using InitialValues = std::function<bool(const std::string& name, const at::Tensor& into)>;

/// Owns a model's parameters: one flat storage per unit, of which every parameter is a view that starts on a block of
/// 64 elements.  Builds the layers on those views.  Where the plan shards parameters, a rank keeps its slice of each
/// unit and whole units are leased.  Used by one thread.
class ParameterStore {
 public:
  /// Builds `model` layer by layer; sharded, no more than one layer is whole at a time.  Values come from `initial`
  /// where it has them, else from (seed, name).  `group` and `plan` must outlive the store.
  ParameterStore(const LayerStack& model, Communicator& group, const plan::Plan& plan, GatherLimits limits,
                 uint64_t seed, const InitialValues& initial);

  /// The autograd leaves, in the table's order.
  [[nodiscard]] std::span<const at::Tensor> leaves() const { return leaves_; }
  /// A segment's elements, of the own slice where parameters are sharded: [numel], a view, fp32.
  [[nodiscard]] at::Tensor values(const plan::Segment& segment) const;
  /// After an update by slices: every rank's slices become everyone's, in the plan's gathers.  Collective; blocks.
  void gather_updated();

  /// Whether units have to be leased.
  [[nodiscard]] bool sharded() const { return units_ != nullptr; }
  /// The unit that runs, with every unit that a tied parameter of its lives in, is whole until release().  Leases may
  /// nest and are counted.  Every rank leases in the same order.  Throws CommError.
  void acquire(int unit);
  void release(int unit);
  /// Starts gathering a unit that will be leased soon; any number is allowed, those that are no units do nothing.
  void prefetch(int unit);
  /// Gives back what was fetched ahead and not leased.
  void drop_prefetched();

 private:
  void build_layer(Layer& layer, int unit, uint64_t seed, const InitialValues& initial);
  [[nodiscard]] at::Tensor place_of(int parameter, int64_t offset) const;
  void gather_units(const plan::GatherGroup& gather);

  Communicator& group_;
  const plan::Plan& plan_;
  std::vector<at::Tensor> flats_;  ///< A unit's trainable parameters, padded: [UnitLayout::numel] each.  Or:
  std::unique_ptr<GatheredUnits> units_;
  std::vector<std::vector<int>> leased_with_;  ///< By unit: the units of the parameters that its layer uses.
  std::vector<at::Tensor> leaves_;
};

}  // namespace lockstep::zero
