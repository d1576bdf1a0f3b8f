// The fused operations in 16-bit floats, native and widened, and under autocast: against the same inputs in fp32.
#include <ATen/autocast_mode.h>

#include "model/operations.h"
#include "model/ops/embedding.h"
#include "precision/autocast.h"
#include "tensor/half_products.h"

namespace lockstep::model::ops {
namespace {

using tensor::HalfProducts;

/// Half a unit of the type's last place.
double rounding(at::ScalarType type) { return type == at::kHalf ? 0x1p-11 : 0x1p-8; }

Tensors rounded(const Tensors& inputs, at::ScalarType type) {
  Tensors result;
  for (const at::Tensor& input : inputs) result.push_back(input.to(type));
  return result;
}

using HalfCase = std::tuple<size_t /*operation*/, at::ScalarType, HalfProducts>;

class EveryHalfOperation : public testing::TestWithParam<HalfCase> {};

// A few roundings of inputs, intermediate and result; sums themselves are fp32, or a long row would lose much more.
TEST_P(EveryHalfOperation, AgreesWithFp32) {
  const auto [index, type, how] = GetParam();
  const Case it = cases()[index];
  const tensor::HalfProductsScope scope(how);
  const Tensors inputs = rounded(it.inputs, type);
  const Outcome actual = outcome_of(it.operation, inputs, type);
  const Outcome expected = outcome_of(it.operation, rounded(inputs, at::kFloat), at::kFloat, type);
  const double tolerance = 4 * rounding(type);
  expect_close(actual.result, expected.result.to(at::kDouble), tolerance, it.name);
  for (size_t i = 0; i < inputs.size(); ++i) {
    EXPECT_EQ(actual.gradients[i].scalar_type(), type);
    expect_close(actual.gradients[i], expected.gradients[i].to(at::kDouble), tolerance,
                 it.name + " gradient " + std::to_string(i));
  }
}

TEST_P(EveryHalfOperation, RunsUnderAutocastWithGradientsInFp32) {
  const auto [index, type, how] = GetParam();
  const Case it = cases()[index];
  const tensor::HalfProductsScope scope(how);
  const Outcome actual = [&] {
    const precision::AutocastScope autocast(type, at::kCPU, /*keeps_casts=*/true);
    return outcome_of(it.operation, it.inputs, at::kFloat, type);
  }();
  const Outcome expected = outcome_of(it.operation, it.inputs, at::kFloat, type);
  for (size_t i = 0; i < it.inputs.size(); ++i) {
    EXPECT_EQ(actual.gradients[i].scalar_type(), at::kFloat);
    expect_close(actual.gradients[i], expected.gradients[i].to(at::kDouble), 6 * rounding(type),
                 it.name + " gradient " + std::to_string(i));
  }
  expect_close(actual.result, expected.result.to(at::kDouble), 6 * rounding(type), it.name);
}

INSTANTIATE_TEST_SUITE_P(Types, EveryHalfOperation,
                         testing::Combine(testing::Range(size_t{0}, cases().size()),
                                          testing::Values(at::kBFloat16, at::kHalf),
                                          testing::Values(HalfProducts::widened, HalfProducts::native)));

TEST(HalfEmbedding, AddsUpInFp32) {
  // 4,096 ones: in 8 bits of precision the sum would stop at 256.
  const at::Tensor weight = at::zeros({3, 2}, at::kBFloat16).requires_grad_();
  const at::Tensor index = at::ones({4096}, at::kLong);
  torch::autograd::backward({ops::embedding(weight, index).sum()});
  EXPECT_EQ(weight.grad()[1][0].item<float>(), 4096);
  EXPECT_EQ(weight.grad()[0][0].item<float>(), 0);
}

TEST(HalfCrossEntropy, SmallGradientsAreNotLostBeforeTheScaleLiftsThem) {
  // A row's share of the mean over 4,096 rows is below fp16's smallest number; times the loss scale it is not.
  const at::Tensor hidden = random({4096, 8}, 1, 0.01).to(at::kHalf).requires_grad_();
  const at::Tensor weight = random({40, 8}, 2, 0.01).to(at::kHalf);
  const at::Tensor loss = linear_cross_entropy(hidden, weight, labels_for(4096, 40));
  const at::Tensor scaled =
      torch::autograd::grad({loss}, {hidden}, {at::full({}, 65536.0, loss.options().requires_grad(false))})[0];
  EXPECT_GT((scaled != 0).to(at::kFloat).mean().item<double>(), 0.99);
}

}  // namespace
}  // namespace lockstep::model::ops
