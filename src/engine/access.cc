// Whole tensors by name, from slices.
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "comm/reduction.h"
#include "engine/parts.h"
#include "lockstep/error.h"
#include "tensor/elements.h"
#include "zero/parameter_table.h"

namespace lockstep {
namespace {

constexpr uint32_t kPiecesTag = 4;

int index_of(const Engine::Parts& parts, const std::string& name) {
  const auto& parameters = parts.plan.table.parameters;
  const auto found = std::ranges::find(parameters, name, &plan::Parameter::name);
  if (found == parameters.end())
    throw ConfigError(
        fmt::format("the model has no parameter {} (a tied one goes by its first name); `lockstep plan` "
                    "and Engine::gather_parameters({{\"*\"}}).names() list them",
                    name));
  return static_cast<int>(found - parameters.begin());
}

int trained_index_of(const Engine::Parts& parts, const std::string& name) {
  const int index = index_of(parts, name);
  if (!parts.plan.table.parameters[static_cast<size_t>(index)].requires_grad)
    throw ConfigError(fmt::format("{} was frozen when the engine was made: it has no gradient and no states", name));
  return index;
}

/// A parameter in fp32 from what its owners hold: piece_of(segment) is only asked for own segments.
at::Tensor collect(const Engine::Parts& parts, int parameter,
                   const std::function<tensor::Elements(const plan::Segment&)>& piece_of) {
  const plan::Plan& plan = parts.plan;
  const int world = parts.group->size();
  std::vector<int64_t> held(static_cast<size_t>(world));
  for (const plan::Segment& segment : plan.segments)
    if (segment.parameter == parameter) held[static_cast<size_t>(segment.owner)] += segment.numel;
  const int64_t most = *std::ranges::max_element(held);
  // [world, most]: every rank's own segments, one after the other.
  const at::Tensor pieces = at::zeros({world, most}, at::kFloat);
  const auto for_each = [&](int owner, const std::function<void(const plan::Segment&, float*)>& visit) {
    float* at = pieces.mutable_data_ptr<float>() + owner * most;
    for (const plan::Segment& segment : plan.segments) {
      if (segment.parameter != parameter || segment.owner != owner) continue;
      visit(segment, at);
      at += segment.numel;
    }
  };
  for_each(parts.group->rank(), [&](const plan::Segment& segment, float* at) {
    tensor::convert(piece_of(segment), {at, at::kFloat}, segment.numel);
  });
  const auto& about = plan.table.parameters[static_cast<size_t>(parameter)];
  comm::start_all_gather(*parts.group, pieces.select(0, parts.group->rank()), pieces.view({-1}),
                         {.tag = kPiecesTag, .what = about.name})
      .wait();
  at::Tensor whole = at::empty(about.shape, at::kFloat);
  for (int owner = 0; owner < world; ++owner)
    for_each(owner, [&](const plan::Segment& segment, const float* at) {
      std::memcpy(whole.mutable_data_ptr<float>() + segment.parameter_begin, at,
                  static_cast<size_t>(segment.numel) * sizeof(float));
    });
  return whole;
}

/// The step's means, once backward is over; the divisor that makes them the gradients.
double finish_gradients(Engine::Parts& parts, const char* asked) {
  if (parts.backwards == 0 || parts.micro_batch != parts.plan.options.accumulation - 1 ||
      parts.reducer->holds_own_sums())
    throw ConfigError(
        fmt::format("{} was asked for when there is no mean gradient: ask between the last backward of a "
                    "step and step()",
                    asked));
  (void)parts.reducer->finish();
  return parts.scaler.scale() / parts.gradient_scale;
}

}  // namespace

Engine::GatheredParameters Engine::gather_parameters(const std::vector<std::string>& names) {
  std::vector<int> parameters;
  const auto& table = parts_->plan.table.parameters;
  for (const std::string& name : names)
    if (name.find('*') == std::string::npos) (void)index_of(*parts_, name);
  for (size_t index = 0; index < table.size(); ++index)
    if (std::ranges::any_of(names, [&](const std::string& name) { return zero::matches(table[index].name, name); }))
      parameters.push_back(static_cast<int>(index));
  return {*parts_, std::move(parameters)};
}

at::Tensor Engine::gradient(const std::string& name) {
  const int parameter = trained_index_of(*parts_, name);
  const double scale = finish_gradients(*parts_, "a gradient");
  at::Tensor whole =
      collect(*parts_, parameter, [&](const plan::Segment& segment) { return parts_->reducer->gradient(segment); });
  return scale == 1 ? whole : whole.div_(scale);
}

at::Tensor Engine::weight(const std::string& name) {
  return collect(*parts_, trained_index_of(*parts_, name), [&](const plan::Segment& segment) {
    return tensor::elements_of(parts_->parameters->values(segment));
  });
}

std::vector<NamedNorm> Engine::gradient_norms() {
  const double scale = finish_gradients(*parts_, "gradients' norms");
  const std::vector<double> norms = zero::parameter_norms(
      *parts_->group, parts_->plan, [&](const plan::Segment& segment) { return parts_->reducer->gradient(segment); });
  std::vector<NamedNorm> named;
  for (size_t index = 0; index < norms.size(); ++index)
    if (parts_->plan.table.parameters[index].requires_grad)
      named.push_back({parts_->plan.table.parameters[index].name, norms[index] / scale});
  return named;
}

at::Tensor Engine::optimizer_state(const std::string& name, const std::string& state) {
  const int parameter = trained_index_of(*parts_, name);
  const std::vector<std::string>& states = parts_->optimizer->state_names();
  const auto found = std::ranges::find(states, state);
  if (found == states.end())
    throw ConfigError(fmt::format("the optimizer has no state {}; it has: {}", state, fmt::join(states, ", ")));
  const auto index = static_cast<int>(found - states.begin());
  return collect(*parts_, parameter, [&](const plan::Segment& segment) {
    return tensor::elements_of(parts_->optimizer->state(segment, index));
  });
}

void Engine::set_trainable(const std::string& pattern, bool trainable) {
  const auto& table = parts_->plan.table.parameters;
  bool found = false;
  for (size_t index = 0; index < table.size(); ++index) {
    if (!zero::matches(table[index].name, pattern)) continue;
    found = true;
    if (trainable) (void)trained_index_of(*parts_, table[index].name);
    if (!table[index].requires_grad) continue;
    parts_->parameters->leaves()[index].set_requires_grad(trainable);
    parts_->optimizer->set_trainable(static_cast<int>(index), trainable);
  }
  if (!found) (void)index_of(*parts_, pattern);
}

Engine::GatheredParameters::GatheredParameters(Parts& parts, std::vector<int> parameters)
    : parts_(&parts), parameters_(std::move(parameters)) {
  for (const int parameter : parameters_) {
    const int unit = parts.plan.table.parameters[static_cast<size_t>(parameter)].unit;
    if (std::ranges::find(units_, unit) == units_.end()) units_.push_back(unit);
  }
  for (const int unit : units_) parts.parameters->acquire_unit(unit);
}

Engine::GatheredParameters::GatheredParameters(GatheredParameters&& other) noexcept
    : parts_(std::exchange(other.parts_, nullptr)),
      parameters_(std::move(other.parameters_)),
      units_(std::move(other.units_)) {}

Engine::GatheredParameters::~GatheredParameters() {
  try {
    close();
  } catch (const std::exception&) {
    // A lost peer: whoever waits next is told.
  }
}

std::vector<std::string> Engine::GatheredParameters::names() const {
  std::vector<std::string> names;
  for (const int parameter : parameters_)
    names.push_back(parts_->plan.table.parameters[static_cast<size_t>(parameter)].name);
  return names;
}

at::Tensor Engine::GatheredParameters::operator[](const std::string& name) const {
  if (parts_ == nullptr) throw ConfigError(fmt::format("{} was asked for after the scope was closed", name));
  for (const int parameter : parameters_)
    if (parts_->plan.table.parameters[static_cast<size_t>(parameter)].name == name)
      return parts_->parameters->leaves()[static_cast<size_t>(parameter)].detach();
  throw ConfigError(fmt::format("{} is not among the gathered parameters", name));
}

void Engine::GatheredParameters::close() {
  if (parts_ == nullptr) return;
  Parts& parts = *std::exchange(parts_, nullptr);
  for (const int parameter : parameters_) {
    const auto index = static_cast<size_t>(parameter);
    const at::Tensor values = parts.parameters->leaves()[index].detach();
    // Every rank's copy takes rank 0's values below autograd's versions: only an edit counts as one.
    parts.group->broadcast(values.variable_data(), 0, parts.plan.table.parameters[index].name);
  }
  for (const int unit : units_) {
    parts.parameters->keep_edit(unit);
    parts.parameters->release_unit(unit);
  }
}

}  // namespace lockstep
