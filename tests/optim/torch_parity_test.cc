#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#include "optim/table.h"

namespace lockstep::optim {
namespace {

constexpr int64_t kNumel = 203;
constexpr int kSteps = 50;

/// One of our rules beside LibTorch's own with the same settings.
struct Case {
  const char* name;
  const char* type;
  OptimizerOptions options{};
  double lr = 1e-2;
  double weight_decay = 0;
  std::function<std::unique_ptr<torch::optim::Optimizer>(at::Tensor&)> reference{};
};

std::vector<Case> cases() {
  using torch::optim::AdagradOptions;
  using torch::optim::AdamOptions;
  using torch::optim::AdamWOptions;
  using torch::optim::RMSpropOptions;
  using torch::optim::SGDOptions;
  const auto make = [](auto tag, auto options) {
    using Rule = typename decltype(tag)::element_type;
    return [options](at::Tensor& p) -> std::unique_ptr<torch::optim::Optimizer> {
      return std::make_unique<Rule>(std::vector<at::Tensor>{p}, options);
    };
  };
  const std::shared_ptr<torch::optim::Adam> adam;
  const std::shared_ptr<torch::optim::AdamW> adamw;
  const std::shared_ptr<torch::optim::SGD> sgd;
  const std::shared_ptr<torch::optim::Adagrad> adagrad;
  const std::shared_ptr<torch::optim::RMSprop> rmsprop;
  const std::tuple<double, double> betas{0.8, 0.95};
  return {
      {.name = "AdamW",
       .type = "AdamW",
       .weight_decay = 0.1,
       .reference = make(adamw, AdamWOptions(1e-2).weight_decay(0.1))},
      {.name = "AdamL2",
       .type = "adam",
       .options = {.beta1 = 0.8, .beta2 = 0.95, .epsilon = 1e-6, .adam_w_mode = false},
       .weight_decay = 0.1,
       .reference = make(adam, AdamOptions(1e-2).weight_decay(0.1).betas(betas).eps(1e-6))},
      {.name = "AdamDecoupledByDefault",
       .type = "ADAM",
       .weight_decay = 0.1,
       .reference = make(adamw, AdamWOptions(1e-2).weight_decay(0.1))},
      {.name = "SgdPlain", .type = "SGD", .reference = make(sgd, SGDOptions(1e-2))},
      {.name = "SgdMomentumDampening",
       .type = "sgd",
       .options = {.momentum = 0.9, .dampening = 0.3},
       .weight_decay = 0.1,
       .reference = make(sgd, SGDOptions(1e-2).momentum(0.9).dampening(0.3).weight_decay(0.1))},
      {.name = "SgdNesterov",
       .type = "Sgd",
       .options = {.momentum = 0.9, .nesterov = true},
       .reference = make(sgd, SGDOptions(1e-2).momentum(0.9).nesterov(true))},
      {.name = "Adagrad",
       .type = "Adagrad",
       .weight_decay = 0.1,
       .reference = make(adagrad, AdagradOptions(1e-2).weight_decay(0.1))},
      {.name = "RmspropPlain", .type = "RMSprop", .reference = make(rmsprop, RMSpropOptions(1e-2))},
      {.name = "RmspropAll",
       .type = "rmsprop",
       .options = {.epsilon = 1e-4, .momentum = 0.9, .alpha = 0.9, .centered = true},
       .lr = 1e-3,
       .weight_decay = 0.1,
       .reference =
           make(rmsprop, RMSpropOptions(1e-3).weight_decay(0.1).momentum(0.9).alpha(0.9).eps(1e-4).centered(true))},
  };
}

/// Our side: a flat parameter with its states.
class Ours {
 public:
  Ours(const Case& test_case, const at::Tensor& value)
      : case_(test_case),
        rule_(make_optimizer(test_case.type, test_case.options)),
        value_(value.data_ptr<float>(), value.data_ptr<float>() + value.numel()),
        states_(rule_->state_names().size(), std::vector<float>(value_.size())) {
    for (size_t i = 0; i < states_.size(); ++i)
      std::fill(states_[i].begin(), states_[i].end(), rule_->initial_state(i));
  }

  /// Updates the slices between the cuts one by one; the gradient comes multiplied by `divisor`.
  void step(int64_t applied_step, const at::Tensor& gradient, float divisor, const std::vector<int64_t>& cuts) {
    const UpdateContext context{
        .lr = case_.lr, .weight_decay = case_.weight_decay, .applied_step = applied_step, .gradient_divisor = divisor};
    std::vector<std::vector<float*>> states;
    std::vector<Slice> slices;
    for (size_t i = 0; i + 1 < cuts.size(); ++i) {
      auto& pointers = states.emplace_back();
      for (auto& state : states_) pointers.push_back(state.data() + cuts[i]);
    }
    for (size_t i = 0; i + 1 < cuts.size(); ++i) {
      slices.push_back({.value = value_.data() + cuts[i],
                        .gradient = gradient.data_ptr<float>() + cuts[i],
                        .states = states[i],
                        .numel = cuts[i + 1] - cuts[i]});
    }
    rule_->update(context, slices);
  }

  [[nodiscard]] const std::vector<float>& value() const { return value_; }

 private:
  const Case& case_;
  std::unique_ptr<Optimizer> rule_;
  std::vector<float> value_;
  std::vector<std::vector<float>> states_;
};

class Parity : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Rules, Parity, testing::ValuesIn(cases()), [](const auto& info) { return info.param.name; });

TEST_P(Parity, FollowsLibTorchAndEveryCutGivesTheSameBits) {
  at::Generator generator = at::globalContext().defaultGenerator(at::kCPU).clone();
  generator.set_current_seed(1);
  at::Tensor theirs = at::randn({kNumel}, generator).requires_grad_(true);
  Ours whole(GetParam(), theirs.detach());
  Ours cut(GetParam(), theirs.detach());
  const auto reference = GetParam().reference(theirs);

  for (int64_t step = 1; step <= kSteps; ++step) {
    const at::Tensor gradient = at::randn({kNumel}, generator);
    theirs.mutable_grad() = gradient.clone();
    reference->step();
    const at::Tensor scaled = gradient * 8.0F;
    whole.step(step, scaled, 8.0F, {0, kNumel});
    const int64_t first = step % kNumel;
    cut.step(step, scaled, 8.0F, {0, first, first + 64, kNumel});
  }

  const float* expected = theirs.data_ptr<float>();
  for (size_t i = 0; i < whole.value().size(); ++i) {
    EXPECT_NEAR(whole.value()[i], expected[i], 1e-6 * std::max(1.0F, std::abs(expected[i]))) << i;
  }
  EXPECT_EQ(0, std::memcmp(whole.value().data(), cut.value().data(), whole.value().size() * sizeof(float)));
}

}  // namespace
}  // namespace lockstep::optim
