// Heavy unit: torch::nn::Module.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <torch/nn/module.h>

#include "lockstep/error.h"
#include "lockstep/models.h"
#include "model/initialization.h"

namespace lockstep::model {
namespace {

struct TwoMaps : torch::nn::Module {
  TwoMaps() {
    first = register_parameter("first", at::full({3, 3}, 0.5));
    frozen = register_parameter("frozen", at::ones({3}), /*requires_grad=*/false);
    again = register_parameter("again", first);
  }
  at::Tensor first, frozen, again;
};

models::ModuleLoss squares(const std::shared_ptr<TwoMaps>& module) {
  return [module = module.get()](const at::Tensor& input, const at::Tensor& target) {
    return (at::matmul(at::matmul(input, module->first), module->again) + module->frozen - target).square().mean();
  };
}

TEST(ModuleLayerTest, DescribesTheModulesOwnTensors) {
  const auto module = std::make_shared<TwoMaps>();
  const LayerStack stack = models::wrap_module(module, squares(module));
  EXPECT_NO_THROW(stack.check());
  EXPECT_TRUE(stack.layers.empty());
  const auto specs = stack.head->describe();
  ASSERT_EQ(specs.size(), 3U);
  EXPECT_EQ(specs[0].name, "first");
  EXPECT_TRUE(specs[0].given.is_same(module->first));
  EXPECT_FALSE(specs[1].requires_grad);
  EXPECT_EQ(specs[2].tied_to, "first");
}

TEST(ModuleLayerTest, TheLeavesStayWhenTheirStorageMoves) {
  const auto module = std::make_shared<TwoMaps>();
  const LayerStack stack = models::wrap_module(module, squares(module));
  std::vector<at::Tensor> leaves;
  for (const ParameterSpec& spec : stack.head->describe()) {
    if (spec.tied_to.empty()) {
      const at::Tensor storage = at::empty(spec.shape);
      fill_initial(storage, spec, 0);
      at::Tensor leaf = spec.given;
      leaf.set_data(storage);
    }
    leaves.push_back(spec.given);
  }
  stack.head->build(leaves);
  stack.head->loss(at::ones({2, 3}), at::zeros({2, 3})).backward();
  EXPECT_TRUE(module->first.grad().defined());
  EXPECT_FALSE(module->frozen.grad().defined());
  EXPECT_EQ(module->first.detach().sum().item<float>(), 4.5F);
}

TEST(ModuleLayerTest, FollowsTheEnginesMode) {
  const auto module = std::make_shared<TwoMaps>();
  const LayerStack stack = models::wrap_module(module, squares(module));
  *stack.training = false;
  (void)stack.head->loss(at::ones({2, 3}), at::zeros({2, 3}));
  EXPECT_FALSE(module->is_training());
  *stack.training = true;
  (void)stack.head->loss(at::ones({2, 3}), at::zeros({2, 3}));
  EXPECT_TRUE(module->is_training());
}

TEST(ModuleLayerTest, WhatCannotBeWrappedIsNamed) {
  const auto module = std::make_shared<TwoMaps>();
  EXPECT_THROW((void)models::wrap_module(nullptr, squares(module)), ConfigError);
  EXPECT_THROW((void)models::wrap_module(module, nullptr), ConfigError);
  const LayerStack many = models::wrap_module(module, [](const at::Tensor& input, const at::Tensor&) { return input; });
  EXPECT_THROW((void)many.head->loss(at::ones({2, 3}), at::zeros({2, 3})), ConfigError);
  module->register_parameter("half", at::ones({2}, at::kHalf));
  try {
    (void)models::wrap_module(module, squares(module));
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("module parameter half: is Half on cpu"));
  }
}

}  // namespace
}  // namespace lockstep::model
