#include "zero/parameter_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>

namespace lockstep::zero {
namespace {

void add_layer(plan::ParameterTable& table, const Layer& layer, const std::string& name,
               std::span<const std::string> no_decay) {
  const size_t first_unit = table.units.size();
  const auto unit_named = [&](const std::string& unit) {
    const auto first = table.units.begin() + static_cast<std::ptrdiff_t>(first_unit);
    const auto index = static_cast<size_t>(std::find(first, table.units.end(), unit) - table.units.begin());
    if (index == table.units.size()) table.units.push_back(unit);
    return static_cast<int>(index);
  };
  plan::LayerUnits uses{.observed = layer.is_observed()};
  const auto use = [&](int unit) {
    if (std::ranges::find(uses.forward, unit) == uses.forward.end()) uses.forward.push_back(unit);
  };
  for (const ParameterSpec& spec : layer.describe()) {
    if (!spec.tied_to.empty()) {
      use(std::ranges::find(table.parameters, spec.tied_to, &plan::Parameter::name)->unit);
      continue;
    }
    const int unit = unit_named(spec.unit.empty() ? name : spec.unit);
    use(unit);
    table.parameters.push_back(
        {.name = spec.name,
         .shape = spec.shape,
         .numel = std::accumulate(spec.shape.begin(), spec.shape.end(), int64_t{1}, std::multiplies<>()),
         .unit = unit,
         .requires_grad = spec.requires_grad,
         .decay = std::none_of(no_decay.begin(), no_decay.end(),
                               [&](const std::string& pattern) { return matches(spec.name, pattern); })});
  }
  if (layer.backward_reads_parameters()) uses.backward = uses.forward;
  table.layers.push_back(std::move(uses));
}

}  // namespace

plan::ParameterTable make_parameter_table(const LayerStack& model, std::span<const std::string> no_decay) {
  model.check();
  plan::ParameterTable table;
  for (size_t index = 0; index < model.layers.size(); ++index)
    add_layer(table, *model.layers[index], fmt::format("layer {}", index), no_decay);
  add_layer(table, *model.head, "head", no_decay);
  return table;
}

bool matches(std::string_view name, std::string_view pattern) {
  const size_t star = pattern.find('*');
  if (star == std::string_view::npos) return name == pattern;
  if (!name.starts_with(pattern.substr(0, star))) return false;
  const std::string_view rest = pattern.substr(star + 1);
  for (size_t begin = star; begin <= name.size(); ++begin)
    if (matches(name.substr(begin), rest)) return true;
  return false;
}

}  // namespace lockstep::zero
