#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "lockstep/layer.h"
#include "plan/plan.h"

namespace lockstep::zero {

/// Copies a parameter's first values into a contiguous fp32 tensor and returns true, or returns false to leave it to the
/// layer's own initialization.
using InitialValues = std::function<bool(const std::string& name, const at::Tensor& into)>;

/// Owns a model's parameters: one flat storage per unit, of which every parameter is a view that starts on a block of 64
/// elements.  Builds the layers on those views.  Used by one thread.
class ParameterStore {
 public:
  /// Builds `model` layer by layer.  Values come from `initial` where it has them, else from (seed, name).
  ParameterStore(const LayerStack& model, const plan::Plan& plan, uint64_t seed, const InitialValues& initial);

  /// The autograd leaves, in the table's order.
  [[nodiscard]] std::span<const at::Tensor> leaves() const { return leaves_; }
  /// A unit's trainable parameters, flat and padded: [UnitLayout::numel], fp32.
  [[nodiscard]] const at::Tensor& flat(int unit) const { return flats_[static_cast<size_t>(unit)]; }

 private:
  void build_layer(Layer& layer, int unit, const plan::Plan& plan, uint64_t seed, const InitialValues& initial);

  std::vector<at::Tensor> flats_;
  std::vector<at::Tensor> leaves_;
};

}  // namespace lockstep::zero
