#pragma once

#include <ATen/ATen.h>

#include <fstream>
#include <iterator>

#include "lockstep/models.h"
#include "model/initialization.h"
#include "model/weights.h"

namespace lockstep::model {

/// A model on tensors of its own, as the engine builds it on its storage.
struct BuiltModel {
  LayerStack stack{};
  std::map<std::string, at::Tensor> parameters{};

  at::Tensor hidden(const at::Tensor& input) const {
    std::vector<at::Tensor> x{input};
    for (const auto& layer : stack.layers) x = layer->forward(x);
    return x.front();
  }
  at::Tensor loss(const at::Tensor& input, const at::Tensor& target) const {
    return stack.head->loss(hidden(input), target);
  }
};

/// weights null: initialized from the seed.
inline BuiltModel build_model(LayerStack stack, const Weights* weights, uint64_t seed = 0) {
  stack.check();
  BuiltModel model{.stack = std::move(stack)};
  const auto build = [&](Layer& layer) {
    std::vector<at::Tensor> tensors;
    for (const ParameterSpec& spec : layer.describe()) {
      if (spec.tied_to.empty()) {
        const at::Tensor values = at::empty(spec.shape, at::kFloat);
        if (weights != nullptr)
          weights->copy_to(spec.name, values);
        else
          fill_initial(values, spec, seed);
        model.parameters[spec.name] = values.set_requires_grad(true);
      }
      tensors.push_back(model.parameters.at(spec.tied_to.empty() ? spec.name : spec.tied_to));
    }
    layer.build(tensors);
  };
  for (const auto& layer : model.stack.layers) build(*layer);
  build(*model.stack.head);
  return model;
}

inline std::string test_data(const std::string& name) { return std::string(LOCKSTEP_TEST_DATA) + "/" + name; }

struct Samples {
  at::Tensor input{};
  at::Tensor target{};
};

/// The first `count` samples of 64 bytes of the corpus.
inline Samples corpus_samples(int64_t count) {
  std::ifstream file(test_data("corpus.txt"), std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const at::Tensor tokens = at::empty({count * 64 + 1}, at::kLong);
  auto* out = tokens.mutable_data_ptr<int64_t>();
  for (int64_t i = 0; i < tokens.numel(); ++i) out[i] = static_cast<unsigned char>(text.at(static_cast<size_t>(i)));
  return {.input = tokens.narrow(0, 0, count * 64).view({count, 64}),
          .target = tokens.narrow(0, 1, count * 64).view({count, 64})};
}

}  // namespace lockstep::model
