#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>

#include "lockstep/error.h"
#include "lockstep/layer.h"

namespace lockstep {

void LayerStack::check() const {
  if (!head) throw ConfigError("the model has no head: set LayerStack::head to a LossLayer");
  std::vector<std::string> problems;
  std::map<std::string, std::vector<int64_t>> shapes;
  const auto check_layer = [&](const Layer& layer) {
    for (const ParameterSpec& spec : layer.describe()) {
      if (spec.tied_to.empty()) {
        if (!shapes.emplace(spec.name, spec.shape).second)
          problems.push_back(fmt::format("two parameters are named {}; give each its own name", spec.name));
        continue;
      }
      const auto owner = shapes.find(spec.tied_to);
      if (owner == shapes.end())
        problems.push_back(fmt::format("{} is tied to {}, which no earlier layer has", spec.name, spec.tied_to));
      else if (owner->second != spec.shape)
        problems.push_back(fmt::format("{} [{}] is tied to {} [{}]: the shapes differ", spec.name,
                                       fmt::join(spec.shape, ", "), spec.tied_to, fmt::join(owner->second, ", ")));
    }
  };
  for (const auto& layer : layers) check_layer(*layer);
  check_layer(*head);
  if (!problems.empty()) throw ConfigError(std::move(problems));
}

}  // namespace lockstep
