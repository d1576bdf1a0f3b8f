#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <functional>
#include <string>
#include <vector>

#include "model/ops/attention.h"
#include "model/ops/layer_norm.h"
#include "model/ops/linear.h"
#include "model/ops/linear_cross_entropy.h"

namespace lockstep::model::ops {

using Tensors = std::vector<at::Tensor>;
using Operation = std::function<at::Tensor(const Tensors&)>;

inline at::Tensor random(at::IntArrayRef shape, uint64_t seed, double deviation = 1.0) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  return at::randn(shape, generator, at::kFloat) * deviation;
}

struct Outcome {
  at::Tensor result;
  Tensors gradients;
};

/// The operation's result, and the inputs' gradients for the upstream gradient cos(0), cos(1), ..., rounded to
/// `precision`.
inline Outcome outcome_of(const Operation& operation, const Tensors& inputs, at::ScalarType dtype = at::kFloat,
                          at::ScalarType precision = at::kDouble) {
  Tensors leaves;
  for (const auto& input : inputs) leaves.push_back(input.to(dtype).detach().clone().requires_grad_());
  const at::Tensor y = operation(leaves);
  const at::Tensor upstream = at::arange(y.numel(), at::kFloat).cos().view(y.sizes()).to(precision).to(dtype);
  return {y.detach(), torch::autograd::grad({y}, leaves, {upstream})};
}

inline void expect_close(const at::Tensor& actual, const at::Tensor& expected, double tolerance,
                         const std::string& what) {
  ASSERT_EQ(actual.sizes(), expected.sizes()) << what;
  if (actual.numel() == 0) return;
  const double size = expected.abs().max().item<double>();
  const double error = (actual.to(at::kDouble) - expected).abs().max().item<double>();
  EXPECT_LE(error, tolerance * size + 1e-12) << what;  // the second: where the gradient is 0
}

inline Operation attention(int64_t heads) {
  return [heads](const Tensors& in) { return causal_self_attention(in[0], heads, 0.0); };
}

inline at::Tensor labels_for(int64_t rows, int64_t classes) {
  return at::arange(rows, at::kLong).mul(7919).remainder(classes);
}

struct Case {
  std::string name;
  Operation operation;
  Tensors inputs;
};

inline std::vector<Case> cases() {
  const Tensors map{random({2, 150, 24}, 1), random({24, 40}, 2), random({40}, 3)};
  const at::Tensor labels = labels_for(300, 40);
  return {
      {"linear", [](const Tensors& in) { return linear(in[0], in[1], in[2], WeightLayout::in_out); }, map},
      {"linear_gelu", [](const Tensors& in) { return linear_gelu(in[0], in[1], in[2], WeightLayout::in_out); }, map},
      {"layer_norm",
       [](const Tensors& in) { return layer_norm(in[0], in[1], in[2], 1e-5); },
       {random({2, 150, 24}, 1), random({24}, 2), random({24}, 3)}},
      {"causal_self_attention", attention(2), {random({2, 150, 48}, 1)}},
      {"linear_cross_entropy",
       [labels](const Tensors& in) { return linear_cross_entropy(in[0], in[1], labels); },
       {random({300, 24}, 1), random({40, 24}, 2)}}};
}

}  // namespace lockstep::model::ops
