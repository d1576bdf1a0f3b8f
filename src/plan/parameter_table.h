#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::plan {

/// One parameter as a value: no tensor.
struct Parameter {
  std::string name{};
  std::vector<int64_t> shape{};
  int64_t numel = 0;
  int unit = 0;  ///< Index into ParameterTable::units.
  bool requires_grad = true;
  bool decay = true;  ///< False: exempt from weight decay.

  bool operator==(const Parameter&) const = default;
};

/// The units that a layer reads, as indices into ParameterTable::units.
struct LayerUnits {
  std::vector<int> forward{};   ///< Those that its parameters live in, tied ones included.
  std::vector<int> backward{};  ///< The same, or none where its backward reads no parameter.
  bool observed = false;        ///< When each is read is seen only as operators take its parameters.

  bool operator==(const LayerUnits&) const = default;
};

/// Every parameter of a model, each once: a tied one stands with the layer that has it first.
struct ParameterTable {
  std::vector<Parameter> parameters{};
  std::vector<std::string> units{};  ///< One or more per layer, in forward order.
  std::vector<LayerUnits> layers{};  ///< In forward order, the head last.

  bool operator==(const ParameterTable&) const = default;
  [[nodiscard]] int64_t numel() const {
    int64_t sum = 0;
    for (const auto& parameter : parameters) sum += parameter.numel;
    return sum;
  }
};

}  // namespace lockstep::plan
