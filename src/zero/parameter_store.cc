#include "zero/parameter_store.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <unordered_map>

#include "base/check.h"
#include "comm/reduction.h"
#include "model/initialization.h"
#include "tensor/elements.h"

namespace lockstep::zero {
namespace {

constexpr uint32_t kWeightsTag = 3;

}  // namespace

ParameterStore::ParameterStore(const LayerStack& model, Communicator& group, const plan::Plan& plan,
                               GatherOptions options, uint64_t seed, const InitialValues& initial)
    : group_(group),
      plan_(plan),
      type_(tensor::scalar_type(plan.options.weight_type)),
      leaves_(plan.table.parameters.size()) {
  if (plan.parameters_are_sharded()) units_ = std::make_unique<GatheredUnits>(group, plan, options);
  for (const plan::UnitLayout& layout : plan.layouts) {
    if (!sharded()) flats_.push_back(at::zeros({layout.numel}, type_));
    if (plan.keeps_masters())
      masters_.push_back(at::zeros({plan.updates_everything() ? layout.numel : layout.slice_numel}, at::kFloat));
  }
  for (const auto& layer : model.layers) build_layer(*layer, seed, initial);
  build_layer(*model.head, seed, initial);
}

at::Tensor ParameterStore::values(const plan::Segment& segment) const {
  if (masters_.empty()) return weights(segment);
  const auto unit = static_cast<size_t>(plan_.table.parameters[static_cast<size_t>(segment.parameter)].unit);
  const int64_t first = plan_.updates_everything() ? 0 : group_.rank() * plan_.layouts[unit].slice_numel;
  return masters_[unit].narrow(0, segment.unit_begin - first, segment.numel);
}

bool ParameterStore::updates(const plan::Segment& segment) const {
  return plan_.updates_everything() || segment.owner == group_.rank();
}

void ParameterStore::round_masters() {
  if (masters_.empty()) return;
  for (const plan::Segment& segment : plan_.segments)
    if (updates(segment))
      tensor::convert(tensor::elements_of(values(segment)), tensor::mutable_elements_of(weights(segment)),
                      segment.numel);
}

at::Tensor ParameterStore::weights(const plan::Segment& segment) const {
  const int unit = plan_.table.parameters[static_cast<size_t>(segment.parameter)].unit;
  if (!sharded()) return flats_[static_cast<size_t>(unit)].narrow(0, segment.unit_begin, segment.numel);
  const at::Tensor& slice = units_->slice(unit);
  return slice.narrow(0, segment.unit_begin - group_.rank() * slice.numel(), segment.numel);
}

void ParameterStore::acquire_unit(int unit) {
  if (sharded()) units_->acquire(unit);
}

void ParameterStore::release_unit(int unit) {
  if (sharded()) units_->release(unit);
}

void ParameterStore::prefetch_unit(int unit) {
  if (sharded()) units_->prefetch(unit);
}

void ParameterStore::keep_edit(int unit) {
  if (sharded()) units_->keep_edit(unit);
  if (masters_.empty()) return;
  for (const plan::Segment& segment : plan_.segments) {
    if (plan_.table.parameters[static_cast<size_t>(segment.parameter)].unit != unit || !updates(segment)) continue;
    const at::Tensor masters = values(segment);
    const at::Tensor edited = weights(segment);
    masters.copy_(at::where(masters.to(type_).eq(edited), masters, edited.to(at::kFloat)));
  }
}

void ParameterStore::acquire_units(std::span<const int> units) {
  for (const int unit : units) acquire_unit(unit);
}

void ParameterStore::release_units(std::span<const int> units) {
  for (const int unit : units) release_unit(unit);
}

void ParameterStore::prefetch_units(std::span<const int> units) {
  for (const int unit : units) prefetch_unit(unit);
}

const plan::LayerUnits& ParameterStore::units_of_layer(int layer) const {
  static const plan::LayerUnits none;
  const auto& layers = plan_.table.layers;
  return layer < 0 || layer >= std::ssize(layers) ? none : layers[static_cast<size_t>(layer)];
}

bool ParameterStore::has_observed_layers() const {
  return std::ranges::any_of(plan_.table.layers, &plan::LayerUnits::observed);
}

void ParameterStore::drop_prefetched() {
  if (sharded()) units_->drop_prefetched();
}

void ParameterStore::gather_updated() {
  if (sharded()) return;
  for (const plan::GatherGroup& gather : plan_.gathers) gather_units(gather);
}

void ParameterStore::gather_units(const plan::GatherGroup& gather) {
  const auto part_of = [&](int unit, int owner) {
    const int64_t slice_numel = plan_.layouts[static_cast<size_t>(unit)].slice_numel;
    return flats_[static_cast<size_t>(unit)].narrow(0, owner * slice_numel, slice_numel);
  };
  const Message message{.tag = kWeightsTag, .what = plan_.table.units[static_cast<size_t>(gather.units.front())]};
  if (gather.units.size() == 1) {
    const int unit = gather.units.front();
    comm::start_all_gather(group_, part_of(unit, group_.rank()), flats_[static_cast<size_t>(unit)], message).wait();
    return;
  }
  // Small units travel together, by way of one buffer.
  const at::Tensor all = at::empty({group_.size(), gather.slice_numel}, type_);
  const auto copy = [&](int owner, bool into_buffer) {
    int64_t at = 0;
    for (const int unit : gather.units) {
      at::Tensor part = part_of(unit, owner);
      at::Tensor place = all.select(0, owner).narrow(0, at, part.numel());
      if (into_buffer)
        place.copy_(part);
      else
        part.copy_(place);
      at += part.numel();
    }
  };
  copy(group_.rank(), true);
  comm::start_all_gather(group_, all.select(0, group_.rank()), all.view({-1}), message).wait();
  for (int owner = 0; owner < group_.size(); ++owner)
    if (owner != group_.rank()) copy(owner, false);
}

at::Tensor ParameterStore::place_of(int parameter, int64_t offset) const {
  const plan::Parameter& it = plan_.table.parameters[static_cast<size_t>(parameter)];
  if (sharded()) return units_->storage(it.unit).view(offset, it.shape);
  return flats_[static_cast<size_t>(it.unit)].narrow(0, offset, it.numel).view(it.shape);
}

/// The masters of a parameter, as far as this rank keeps them.
void ParameterStore::set_values(const at::Tensor& values, const plan::Placement& placement) {
  const auto unit = static_cast<size_t>(plan_.table.parameters[static_cast<size_t>(placement.parameter)].unit);
  const at::Tensor& kept = masters_[unit];
  const int64_t first = plan_.updates_everything() ? 0 : group_.rank() * kept.numel();
  const int64_t begin = std::max(placement.offset, first);
  const int64_t end = std::min(placement.offset + values.numel(), first + kept.numel());
  if (begin < end)
    kept.narrow(0, begin - first, end - begin)
        .copy_(values.view({-1}).narrow(0, begin - placement.offset, end - begin));
}

void ParameterStore::build_layer(Layer& layer, uint64_t seed, const InitialValues& initial) {
  std::unordered_map<std::string, int> index_of;
  for (size_t i = 0; i < plan_.table.parameters.size(); ++i)
    index_of[plan_.table.parameters[i].name] = static_cast<int>(i);
  std::unordered_map<int, int64_t> offsets;
  for (const plan::UnitLayout& layout : plan_.layouts)
    for (const plan::Placement& placement : layout.placements) offsets[placement.parameter] = placement.offset;

  std::vector<int> own;  // Units that this layer's own parameters live in.
  std::vector<at::Tensor> parameters;
  for (const ParameterSpec& spec : layer.describe()) {
    const int index = index_of.at(spec.tied_to.empty() ? spec.name : spec.tied_to);
    const int unit = plan_.table.parameters[static_cast<size_t>(index)].unit;
    at::Tensor& leaf = leaves_[static_cast<size_t>(index)];
    if (spec.tied_to.empty()) {
      if (std::ranges::find(own, unit) == own.end()) {
        own.push_back(unit);
        if (sharded()) units_->start_initialization(unit);
      }
      const auto offset = offsets.find(index);
      const at::Tensor view =
          (offset != offsets.end() ? place_of(index, offset->second) : at::empty(spec.shape, type_)).detach();
      const at::Tensor first_values = type_ == at::kFloat ? view : at::empty(spec.shape, at::kFloat);
      if (!initial || !initial(spec.name, first_values)) model::fill_initial(first_values, spec, seed);
      if (type_ != at::kFloat) view.copy_(first_values);
      if (!masters_.empty() && offset != offsets.end())
        set_values(first_values, {.parameter = index, .offset = offset->second});
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
  if (sharded())
    for (const int unit : own) units_->end_initialization(unit);
}

}  // namespace lockstep::zero
