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
/// unit and whole units are leased.  Where it has master weights, the parameters are those rounded to 16 bits, and a
/// rank keeps the masters of what it updates.  Used by one thread.
class ParameterStore {
 public:
  /// Builds `model` layer by layer; sharded, no more than one layer is whole at a time.  Values come from `initial`
  /// where it has them, else from (seed, name).  `group` and `plan` must outlive the store.
  ParameterStore(const LayerStack& model, Communicator& group, const plan::Plan& plan, GatherOptions options,
                 uint64_t seed, const InitialValues& initial);

  /// The autograd leaves, in the table's order.
  [[nodiscard]] std::span<const at::Tensor> leaves() const { return leaves_; }
  /// What the update changes of a segment that this rank updates: [numel], a view; the masters in fp32, or the weights
  /// themselves.
  [[nodiscard]] at::Tensor values(const plan::Segment& segment) const;
  /// The segment's weights, of the own slice where parameters are sharded: [numel], a view, in the weights' type.
  [[nodiscard]] at::Tensor weights(const plan::Segment& segment) const;
  /// After a change of masters: the weights of what this rank updates are rounded from them again.
  void round_masters();
  /// After an update by slices: every rank's slices become everyone's, in the plan's gathers.  Collective; blocks.
  void gather_updated();

  /// Whether units have to be leased.
  [[nodiscard]] bool sharded() const { return units_ != nullptr; }
  /// The unit is whole until release_unit().  Leases may nest and are counted.  Every rank leases in the same order.
  /// Does nothing where parameters are not sharded.  Throws CommError.
  void acquire_unit(int unit);
  void release_unit(int unit);
  /// Starts gathering a unit that will be leased soon.
  void prefetch_unit(int unit);
  /// For an edit of a leased unit's values: the own slice takes them, and a master whose weight is no longer its own,
  /// rounded, becomes the weight.
  void keep_edit(int unit);
  /// The same for several.
  void acquire_units(std::span<const int> units);
  void release_units(std::span<const int> units);
  void prefetch_units(std::span<const int> units);
  /// Gives back what was fetched ahead and not leased.
  void drop_prefetched();
  /// What each layer reads; empty for one that does not exist.  Of an observed one, units are leased as operators take
  /// them.
  [[nodiscard]] const plan::LayerUnits& units_of_layer(int layer) const;
  [[nodiscard]] bool has_observed_layers() const;

  /// The most elements of whole units at once so far.
  [[nodiscard]] int64_t peak_whole_numel() const { return sharded() ? units_->peak_numel() : 0; }
  /// Requires: sharded.
  [[nodiscard]] int64_t unit_numel(int unit) const { return units_->numel(unit); }
  [[nodiscard]] const UnitStorage& unit_storage(int unit) const { return units_->storage(unit); }
  [[nodiscard]] const std::vector<std::string>& unit_names() const { return plan_.table.units; }

 private:
  void build_layer(Layer& layer, uint64_t seed, const InitialValues& initial);
  [[nodiscard]] at::Tensor place_of(int parameter, int64_t offset) const;
  void gather_units(const plan::GatherGroup& gather);
  void set_values(const at::Tensor& values, const plan::Placement& placement);
  [[nodiscard]] bool updates(const plan::Segment& segment) const;

  Communicator& group_;
  const plan::Plan& plan_;
  const at::ScalarType type_;
  std::vector<at::Tensor> flats_;  ///< A unit's trainable parameters, padded: [UnitLayout::numel] each.  Or:
  std::unique_ptr<GatheredUnits> units_;
  std::vector<at::Tensor> masters_;  ///< fp32, of each unit or of its own slice, as the plan updates; or none.
  std::vector<at::Tensor> leaves_;
};

}  // namespace lockstep::zero
