#include "zero/parameter_store.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <unordered_map>

#include "base/check.h"
#include "model/initialization.h"

namespace lockstep::zero {

ParameterStore::ParameterStore(const LayerStack& model, const plan::Plan& plan, uint64_t seed,
                               const InitialValues& initial)
    : leaves_(plan.table.parameters.size()) {
  int unit = 0;
  for (const auto& layer : model.layers) build_layer(*layer, unit++, plan, seed, initial);
  build_layer(*model.head, unit++, plan, seed, initial);
}

void ParameterStore::build_layer(Layer& layer, int unit, const plan::Plan& plan, uint64_t seed,
                                 const InitialValues& initial) {
  const plan::UnitLayout& layout = plan.layouts[static_cast<size_t>(unit)];
  const at::Tensor flat = at::zeros({layout.numel}, at::kFloat);
  flats_.push_back(flat);
  std::unordered_map<int, int64_t> offsets;
  for (const plan::Placement& placement : layout.placements) offsets[placement.parameter] = placement.offset;

  std::unordered_map<std::string, int> index_of;
  for (size_t i = 0; i < plan.table.parameters.size(); ++i) index_of[plan.table.parameters[i].name] = static_cast<int>(i);

  std::vector<at::Tensor> parameters;
  for (const ParameterSpec& spec : layer.describe()) {
    const int index = index_of.at(spec.tied_to.empty() ? spec.name : spec.tied_to);
    at::Tensor& leaf = leaves_[static_cast<size_t>(index)];
    if (spec.tied_to.empty()) {
      const auto offset = offsets.find(index);
      const int64_t numel = plan.table.parameters[static_cast<size_t>(index)].numel;
      const at::Tensor view =
          (offset != offsets.end() ? flat.narrow(0, offset->second, numel) : at::empty({numel}, at::kFloat))
              .view(spec.shape)
              .detach();
      if (!initial || !initial(spec.name, view)) model::fill_initial(view, spec, seed);
      leaf = view;
      if (spec.given.defined()) {
        leaf = spec.given;
        leaf.set_data(view);
      }
      leaf.set_requires_grad(spec.requires_grad);
    }
    LOCKSTEP_CHECK(leaf.defined());
    parameters.push_back(leaf);
  }
  layer.build(parameters);
}

}  // namespace lockstep::zero
