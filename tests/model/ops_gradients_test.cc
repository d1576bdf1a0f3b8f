// The fused operations against the same mathematics composed of LibTorch's operators in fp64, and what they promise
// beside numbers: first order only, fallbacks, threads, gradients that are not copied.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/operations.h"

namespace lockstep::model::ops {
namespace {

void expect_same_mathematics(const Operation& fused, const Operation& composed, const Tensors& inputs,
                             double tolerance = 1e-5) {
  const Outcome actual = outcome_of(fused, inputs);
  const Outcome expected = outcome_of(composed, inputs, at::kDouble);
  expect_close(actual.result, expected.result, tolerance, "result");
  for (size_t i = 0; i < inputs.size(); ++i)
    expect_close(actual.gradients[i], expected.gradients[i], tolerance, "gradient " + std::to_string(i));
}

void expect_same_bits(const Outcome& a, const Outcome& b) {
  EXPECT_TRUE(at::equal(a.result, b.result));
  for (size_t i = 0; i < a.gradients.size(); ++i)
    EXPECT_TRUE(at::equal(a.gradients[i], b.gradients[i])) << "gradient " << i;
}

at::Tensor composed_linear(const Tensors& in, WeightLayout layout) {
  const at::Tensor y = at::matmul(in[0], layout == WeightLayout::in_out ? in[1] : in[1].t());
  return in.size() > 2 ? y + in[2] : y;
}

at::Tensor composed_attention(const at::Tensor& qkv, int64_t heads) {
  const int64_t batch = qkv.size(0);
  const int64_t length = qkv.size(1);
  const int64_t head_width = qkv.size(2) / (3 * heads);
  const at::Tensor parts = qkv.view({batch, length, 3, heads, head_width}).permute({2, 0, 3, 1, 4});
  const at::Tensor hidden = at::ones({length, length}, at::kBool).triu(1);
  const at::Tensor scores = at::matmul(parts[0], parts[1].transpose(-1, -2)) / std::sqrt(double(head_width));
  const at::Tensor mixed = at::matmul(at::softmax(scores.masked_fill(hidden, -INFINITY), -1), parts[2]);
  return mixed.transpose(1, 2).reshape({batch, length, heads * head_width});
}

/// Restores the number of threads.
class Threads {
 public:
  explicit Threads(int count) : before_(at::get_num_threads()) { at::set_num_threads(count); }
  ~Threads() { at::set_num_threads(before_); }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

 private:
  int before_;
};

class LinearTest : public testing::TestWithParam<std::tuple<WeightLayout, std::array<int64_t, 3>>> {
 protected:
  Tensors inputs() const {
    const auto [layout, size] = GetParam();
    const auto [rows, in, out] = size;
    const std::vector<int64_t> shape = layout == WeightLayout::in_out ? std::vector{in, out} : std::vector{out, in};
    return {random({rows, in}, 1), random(shape, 2, 0.2), random({out}, 3)};
  }
};

TEST_P(LinearTest, IsProductPlusBias) {
  const auto layout = std::get<0>(GetParam());
  expect_same_mathematics([&](const Tensors& in) { return linear(in[0], in[1], in[2], layout); },
                          [&](const Tensors& in) { return composed_linear(in, layout); }, inputs());
}

TEST_P(LinearTest, WorksWithoutBias) {
  const auto layout = std::get<0>(GetParam());
  auto in = inputs();
  in.pop_back();
  expect_same_mathematics([&](const Tensors& in) { return linear(in[0], in[1], {}, layout); },
                          [&](const Tensors& in) { return composed_linear(in, layout); }, in);
}

TEST_P(LinearTest, GeluIsTanhForm) {
  const auto layout = std::get<0>(GetParam());
  expect_same_mathematics([&](const Tensors& in) { return linear_gelu(in[0], in[1], in[2], layout); },
                          [&](const Tensors& in) { return at::gelu(composed_linear(in, layout), "tanh"); }, inputs());
}

INSTANTIATE_TEST_SUITE_P(
    Sizes, LinearTest,
    testing::Combine(testing::Values(WeightLayout::in_out, WeightLayout::out_in),
                     testing::Values(std::array<int64_t, 3>{0, 3, 5}, std::array<int64_t, 3>{1, 1, 1},
                                     std::array<int64_t, 3>{7, 13, 5}, std::array<int64_t, 3>{64, 32, 48},
                                     std::array<int64_t, 3>{515, 33, 17})));

TEST(LayerNormTest, IsLayerNorm) {
  for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{0, 8}, {1, 1}, {3, 7}, {64, 384}, {515, 33}}) {
    SCOPED_TRACE(testing::Message() << rows << " x " << columns);
    expect_same_mathematics(
        [](const Tensors& in) { return layer_norm(in[0], in[1], in[2], 1e-5); },
        [&](const Tensors& in) { return at::layer_norm(in[0], {in[0].size(-1)}, in[1], in[2], 1e-5); },
        {random({rows, columns}, 1) + 3.0, random({columns}, 2), random({columns}, 3)}, 2e-5);
  }
}

TEST(LayerNormTest, LeavesAGradientThatOthersSee) {
  const at::Tensor x = random({4, 8}, 1).requires_grad_();
  const at::Tensor y = layer_norm(x, at::ones({8}), at::zeros({8}), 1e-5);
  const at::Tensor upstream = random({4, 8}, 2);
  const at::Tensor before = upstream.clone();
  torch::autograd::grad({y}, {x}, {upstream});
  EXPECT_TRUE(at::equal(upstream, before));
}

class AttentionSizes : public testing::TestWithParam<std::array<int64_t, 4>> {};

TEST_P(AttentionSizes, IsCausalAttention) {
  const auto [batch, length, heads, head_width] = GetParam();
  expect_same_mathematics(attention(heads), [&](const Tensors& in) { return composed_attention(in[0], heads); },
                          {random({batch, length, 3 * heads * head_width}, 1)});
}

INSTANTIATE_TEST_SUITE_P(Sizes, AttentionSizes,
                         testing::Values(std::array<int64_t, 4>{1, 1, 1, 1}, std::array<int64_t, 4>{2, 3, 2, 5},
                                         std::array<int64_t, 4>{1, 64, 2, 16}, std::array<int64_t, 4>{2, 65, 1, 8},
                                         std::array<int64_t, 4>{1, 200, 3, 17}, std::array<int64_t, 4>{1, 512, 1, 8},
                                         std::array<int64_t, 4>{1, 577, 2, 8}));

TEST(AttentionTest, ScoresOfAnySizeStayFinite) {
  const at::Tensor qkv = random({1, 70, 24}, 1, 100.0);
  const Outcome outcome = outcome_of(attention(1), {qkv});
  EXPECT_TRUE(at::isfinite(outcome.result).all().item<bool>());
  EXPECT_TRUE(at::isfinite(outcome.gradients[0]).all().item<bool>());
}

TEST(AttentionTest, ATokenSeesNothingAfterIt) {
  at::Tensor qkv = random({1, 100, 24}, 1);
  const at::Tensor before = causal_self_attention(qkv, 2, 0.0);
  qkv.narrow(1, 70, 30).fill_(std::numeric_limits<float>::quiet_NaN());
  EXPECT_TRUE(at::equal(causal_self_attention(qkv, 2, 0.0).narrow(1, 0, 64), before.narrow(1, 0, 64)));
}

TEST(LinearCrossEntropyTest, IsMeanCrossEntropy) {
  // The last takes two chunks, and its gradients are sums of 50,257 terms in fp32.
  for (const auto& [rows, width, classes] :
       {std::array<int64_t, 3>{1, 1, 1}, {5, 3, 2}, {33, 16, 257}, {340, 4, 50257}}) {
    SCOPED_TRACE(testing::Message() << rows << " rows, " << classes << " classes");
    const at::Tensor labels = labels_for(rows, classes);
    if (rows > 4) labels.narrow(0, 2, 2).fill_(-100);
    expect_same_mathematics([&](const Tensors& in) { return linear_cross_entropy(in[0], in[1], labels); },
                            [&](const Tensors& in) { return at::cross_entropy_loss(at::linear(in[0], in[1]), labels); },
                            {random({rows, width}, 1), random({classes, width}, 2, 0.5)}, 5e-5);
  }
}

TEST(LinearCrossEntropyTest, ScalesByTheUpstreamGradient) {
  const at::Tensor labels = labels_for(9, 11);
  const at::Tensor hidden = random({9, 4}, 1).requires_grad_();
  const at::Tensor weight = random({11, 4}, 2).requires_grad_();
  const auto once = torch::autograd::grad({linear_cross_entropy(hidden, weight, labels)}, {hidden, weight});
  const auto scaled = torch::autograd::grad({linear_cross_entropy(hidden, weight, labels) * 1024.0}, {hidden, weight});
  EXPECT_TRUE(at::equal(scaled[0], once[0] * 1024.0));
  EXPECT_TRUE(at::equal(scaled[1], once[1] * 1024.0));
}

TEST(LinearCrossEntropyTest, EvaluationGivesTheSameLoss) {
  const at::Tensor labels = labels_for(40, 300);
  const at::Tensor hidden = random({40, 8}, 1).requires_grad_();
  const at::Tensor weight = random({300, 8}, 2);
  const at::Tensor training = linear_cross_entropy(hidden, weight, labels);
  const c10::NoGradGuard no_gradients;
  EXPECT_NEAR(linear_cross_entropy(hidden, weight, labels).item<float>(), training.item<float>(), 1e-6);
}

TEST(LinearCrossEntropyTest, RefusesALabelThatIsNoClass) {
  EXPECT_THROW(linear_cross_entropy(random({2, 3}, 1), random({5, 3}, 2), at::full({2}, 5, at::kLong)), c10::Error);
}

class EveryOperation : public testing::TestWithParam<Case> {};

TEST_P(EveryOperation, AgreesWithFiniteDifferences) {
  const auto& [name, operation, inputs] = GetParam();
  const Outcome outcome = outcome_of(operation, inputs);
  const auto value = [&](const Tensors& at) {
    const at::Tensor y = operation(at);
    return (y.to(at::kDouble) * at::arange(y.numel(), at::kDouble).cos().view(y.sizes())).sum().item<double>();
  };
  for (size_t i = 0; i < inputs.size(); ++i) {
    constexpr double kStep = 1e-2;
    const at::Tensor direction = random(inputs[i].sizes(), 90 + i);
    auto shifted = inputs;
    shifted[i] = inputs[i] + kStep * direction;
    const double above = value(shifted);
    shifted[i] = inputs[i] - kStep * direction;
    const double below = value(shifted);
    const double expected = (outcome.gradients[i] * direction).sum().item<double>();
    const double size = outcome.gradients[i].norm().item<double>() * direction.norm().item<double>();
    EXPECT_NEAR((above - below) / (2 * kStep), expected, 1e-3 * size) << "input " << i;
  }
}

TEST_P(EveryOperation, GivesTheSameBitsAgain) {
  const auto& [name, operation, inputs] = GetParam();
  expect_same_bits(outcome_of(operation, inputs), outcome_of(operation, inputs));
}

TEST_P(EveryOperation, GivesTheSameBitsAtAnyOffsetOf16Bytes) {
  const auto& [name, operation, inputs] = GetParam();
  const Outcome expected = outcome_of(operation, inputs);
  for (const int64_t offset : {4, 8, 12, 20}) {
    Tensors leaves;
    for (const auto& input : inputs) {
      const at::Tensor place = at::empty({offset + input.numel()}, at::kFloat).narrow(0, offset, input.numel());
      leaves.push_back(place.view(input.sizes()).copy_(input).detach().requires_grad_());
    }
    const at::Tensor y = operation(leaves);
    const at::Tensor upstream = at::arange(y.numel(), at::kFloat).cos().view(y.sizes());
    expect_same_bits({y.detach(), torch::autograd::grad({y}, leaves, {upstream})}, expected);
  }
}

TEST_P(EveryOperation, IsCorrectWithSeveralThreads) {
  const auto& [name, operation, inputs] = GetParam();
  const Outcome expected = [&] {
    const Threads one(1);
    return outcome_of(operation, inputs, at::kFloat);
  }();
  const Threads three(3);
  const Outcome actual = outcome_of(operation, inputs);
  expect_close(actual.result, expected.result.to(at::kDouble), 1e-5, "result");
  for (size_t i = 0; i < inputs.size(); ++i)
    expect_close(actual.gradients[i], expected.gradients[i].to(at::kDouble), 1e-5, "gradient " + std::to_string(i));
  expect_same_bits(actual, outcome_of(operation, inputs));
}

TEST_P(EveryOperation, TakesInputsThatAreNotContiguous) {
  const auto& [name, operation, inputs] = GetParam();
  const Outcome expected = outcome_of(operation, inputs);
  Tensors leaves{inputs[0].transpose(0, -1).contiguous().transpose(0, -1).detach().requires_grad_()};
  for (size_t i = 1; i < inputs.size(); ++i) leaves.push_back(inputs[i].clone().requires_grad_());
  const at::Tensor y = operation(leaves);
  const at::Tensor upstream = at::arange(y.numel(), at::kFloat).cos().view(y.sizes());
  const at::Tensor strided = y.dim() < 2 ? upstream : upstream.transpose(0, -1).contiguous().transpose(0, -1);
  expect_same_bits({y.detach(), torch::autograd::grad({y}, leaves, {strided})}, expected);
}

TEST_P(EveryOperation, RunsBackwardTwiceWhereTheGraphIsKept) {
  const auto& [name, operation, inputs] = GetParam();
  Tensors leaves;
  for (const auto& input : inputs) leaves.push_back(input.clone().requires_grad_());
  const at::Tensor y = operation(leaves).sum();
  const auto first = torch::autograd::grad({y}, leaves, {}, /*retain_graph=*/true);
  const auto second = torch::autograd::grad({y}, leaves, {});
  for (size_t i = 0; i < leaves.size(); ++i) EXPECT_TRUE(at::equal(first[i], second[i])) << "gradient " << i;
  EXPECT_THROW(torch::autograd::grad({y}, leaves, {}), c10::Error);
}

TEST_P(EveryOperation, RefusesASecondDerivative) {
  const auto& [name, operation, inputs] = GetParam();
  Tensors leaves;
  for (const auto& input : inputs) leaves.push_back(input.clone().requires_grad_());
  const at::Tensor y = operation(leaves).sum();
  try {
    torch::autograd::grad({y}, leaves, {}, /*retain_graph=*/true, /*create_graph=*/true);
    ADD_FAILURE() << "no exception";
  } catch (const c10::Error& error) {
    EXPECT_THAT(error.what_without_backtrace(), testing::HasSubstr(name + " has no second derivative"));
  }
}

TEST_P(EveryOperation, NoticesAnInputThatChanged) {
  const auto& [name, operation, inputs] = GetParam();
  if (name == "linear_cross_entropy") GTEST_SKIP() << "needs no input in backward";
  const at::Tensor leaf = inputs[0].clone().requires_grad_();
  const at::Tensor input = leaf * 1.0;
  Tensors in = inputs;
  in[0] = input;
  if (in.size() > 1) in[1] = in[1].clone().requires_grad_();
  const at::Tensor y = operation(in).sum();
  input.detach().add_(1.0);
  EXPECT_THROW(torch::autograd::grad({y}, {leaf}, {}), c10::Error);
}

TEST_P(EveryOperation, GradientsOfWeightsAreNotCopied) {
  const auto& [name, operation, inputs] = GetParam();
  Tensors leaves;
  std::vector<const void*> fresh(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    leaves.push_back(inputs[i].clone().requires_grad_());
    leaves[i].register_hook([&fresh, i](const at::Tensor& gradient) { fresh[i] = gradient.const_data_ptr(); });
  }
  torch::autograd::backward({operation(leaves).sum()});
  for (size_t i = 1; i < leaves.size(); ++i) EXPECT_EQ(leaves[i].grad().const_data_ptr(), fresh[i]) << "input " << i;
}

TEST_P(EveryOperation, FallsBackInOtherTypes) {
  const auto& [name, operation, inputs] = GetParam();
  const Outcome fused = outcome_of(operation, inputs);
  const Outcome fallback = outcome_of(operation, inputs, at::kDouble);
  expect_close(fused.result, fallback.result.to(at::kDouble), 2e-5, "result");
  for (size_t i = 0; i < inputs.size(); ++i)
    expect_close(fused.gradients[i], fallback.gradients[i].to(at::kDouble), 2e-5, "gradient " + std::to_string(i));
}

INSTANTIATE_TEST_SUITE_P(Operations, EveryOperation, testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace lockstep::model::ops
