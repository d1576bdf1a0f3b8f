#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernels/cross_entropy.h"
#include "kernels/gelu.h"
#include "kernels/levels.h"
#include "kernels/norm.h"
#include "kernels/reference.h"

namespace lockstep::kernels {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

using Layers = AtEveryLevel;
INSTANTIATE_TEST_SUITE_P(Levels, Layers, testing::ValuesIn(compiled_levels()), level_name);

std::vector<float> empty_like(const std::vector<float>& values) { return std::vector<float>(values.size()); }

TEST_P(Layers, GeluMatchesTheReferenceOverTheWholeRange) {
  std::vector<float> x;
  for (double value = -20; value <= 20; value += 1.0 / 512) x.push_back(static_cast<float>(value));
  for (const float value : {0.0F, -0.0F, 1e-20F, -1e-20F, 100.0F, -100.0F, 1e6F, -1e6F}) x.push_back(value);
  const Matrix shape{1, static_cast<int64_t>(x.size())};
  auto y = empty_like(x);
  auto d = empty_like(x);
  auto expected_y = empty_like(x);
  auto expected_d = empty_like(x);
  gelu_forward(shape, x.data(), nullptr, y.data(), d.data());
  reference::gelu_forward(shape, x.data(), nullptr, expected_y.data(), expected_d.data());
  expect_near_all(y, expected_y, 5e-7, 1e-7);
  expect_near_all(d, expected_d, 5e-7, 3e-7);

  gelu(shape, x.data(), nullptr, d.data());
  EXPECT_TRUE(same_bits(d, y));
}

TEST_P(Layers, GeluKeepsWhatIsNotFinite) {
  const std::vector<float> x{kNan, kInfinity, -kInfinity, 1.0F};
  auto y = empty_like(x);
  auto d = empty_like(x);
  gelu_forward({1, 4}, x.data(), nullptr, y.data(), d.data());
  EXPECT_TRUE(std::isnan(y[0]));
  EXPECT_FALSE(std::isfinite(y[1]));
  EXPECT_FALSE(std::isfinite(y[2]));
  EXPECT_TRUE(std::isfinite(y[3]));
}

TEST_P(Layers, GeluForwardAndBackwardWithBias) {
  for (const Matrix shape : {Matrix{0, 5}, Matrix{1, 1}, Matrix{3, 17}, Matrix{130, 40}}) {
    const auto x = random_values(shape.rows * shape.columns, 1, 2.0F);
    const auto dy = random_values(shape.rows * shape.columns, 2);
    const auto bias = random_values(shape.columns, 3);
    auto y = empty_like(x);
    auto d = empty_like(x);
    auto expected_y = empty_like(x);
    auto expected_d = empty_like(x);
    gelu_forward(shape, x.data(), bias.data(), y.data(), d.data());
    reference::gelu_forward(shape, x.data(), bias.data(), expected_y.data(), expected_d.data());
    expect_near_all(y, expected_y, 5e-7, 1e-7);
    expect_near_all(d, expected_d, 5e-7, 3e-7);

    auto dx = empty_like(x);
    auto expected_dx = empty_like(x);
    auto bias_gradient = bias;
    auto expected_bias_gradient = bias;
    gelu_backward(shape, dy.data(), d.data(), dx.data(), bias_gradient.data());
    reference::gelu_backward(shape, dy.data(), d.data(), expected_dx.data(), expected_bias_gradient.data());
    EXPECT_TRUE(same_bits(dx, expected_dx));
    expect_near_all(bias_gradient, expected_bias_gradient, 1e-6, 1e-5);

    auto sums = bias;
    add_column_sums(shape, dx.data(), sums.data());
    EXPECT_TRUE(same_bits(sums, bias_gradient));

    gelu_backward(shape, dy.data(), d.data(), d.data(), nullptr);  // in place, without a bias
    EXPECT_TRUE(same_bits(d, dx));
  }
}

TEST_P(Layers, GeluIsEqualBitsForEverySplitOfRows) {
  const Matrix shape{9, 21};
  const auto x = random_values(shape.rows * shape.columns, 1);
  const auto bias = random_values(shape.columns, 2);
  auto y = empty_like(x);
  auto d = empty_like(x);
  gelu_forward(shape, x.data(), bias.data(), y.data(), d.data());
  for (int64_t cut = 1; cut < shape.rows; ++cut) {
    const int64_t offset = cut * shape.columns;
    auto y2 = empty_like(x);
    auto d2 = empty_like(x);
    gelu_forward({cut, 21}, x.data(), bias.data(), y2.data(), d2.data());
    gelu_forward({9 - cut, 21}, x.data() + offset, bias.data(), y2.data() + offset, d2.data() + offset);
    EXPECT_TRUE(same_bits(y2, y));
    EXPECT_TRUE(same_bits(d2, d));
  }
}

TEST_P(Layers, LayerNormMatchesTheReference) {
  for (const Matrix shape : {Matrix{1, 1}, Matrix{2, 5}, Matrix{3, 64}, Matrix{130, 100}}) {
    auto x = random_values(shape.rows * shape.columns, 1, 3.0F);
    for (float& value : x) value += 5.0F;
    const auto weight = random_values(shape.columns, 2);
    const auto bias = random_values(shape.columns, 3);
    struct Result {
      std::vector<float> y, mean, rstd, dx, dweight, dbias;
    };
    const auto dy = random_values(shape.rows * shape.columns, 4);
    const auto residual = random_values(shape.rows * shape.columns, 5);
    const auto run = [&](auto forward, auto backward) {
      Result r{.y = empty_like(x),
               .mean = std::vector<float>(static_cast<size_t>(shape.rows)),
               .rstd = std::vector<float>(static_cast<size_t>(shape.rows)),
               .dx = empty_like(x),
               .dweight = weight,
               .dbias = bias};
      forward(shape, LayerNormForward{.x = x.data(),
                                      .weight = weight.data(),
                                      .bias = bias.data(),
                                      .y = r.y.data(),
                                      .mean = r.mean.data(),
                                      .rstd = r.rstd.data()});
      backward(shape, LayerNormBackward{.dy = dy.data(),
                                        .x = x.data(),
                                        .weight = weight.data(),
                                        .mean = r.mean.data(),
                                        .rstd = r.rstd.data(),
                                        .residual_gradient = residual.data(),
                                        .dx = r.dx.data(),
                                        .weight_gradient = r.dweight.data(),
                                        .bias_gradient = r.dbias.data()});
      return r;
    };
    const Result actual = run(layer_norm_forward, layer_norm_backward);
    const Result expected = run(reference::layer_norm_forward, reference::layer_norm_backward);
    // One column has variance 0: what is left is rounding, times rstd.
    const double tolerance = shape.columns == 1 ? 1e-3 : 2e-6;
    expect_near_all(actual.mean, expected.mean, 1e-6, 1e-6);
    expect_near_all(actual.rstd, expected.rstd, 1e-5, 1e-6);
    expect_near_all(actual.y, expected.y, 1e-5, tolerance);
    expect_near_all(actual.dx, expected.dx, 1e-5, 1e-5);
    expect_near_all(actual.dweight, expected.dweight, 1e-5, 2e-5);
    expect_near_all(actual.dbias, expected.dbias, 1e-5, 2e-5);
  }
}

TEST_P(Layers, CrossEntropyMatchesTheReference) {
  for (const LogitsShape shape :
       {LogitsShape{1, 1, 1}, LogitsShape{3, 5, 8}, LogitsShape{5, 257, 272}, LogitsShape{2, 5000, 5008}}) {
    auto logits = random_values(shape.rows * shape.stride, 1, 4.0F);
    std::vector<int64_t> labels;
    for (int64_t r = 0; r < shape.rows; ++r) labels.push_back(r * 3 % shape.classes);
    if (shape.rows > 2) labels[1] = kIgnoredLabel;
    auto expected = logits;
    std::vector<double> loss(static_cast<size_t>(shape.rows));
    std::vector<double> expected_loss = loss;
    std::vector<double> loss_alone = loss;
    cross_entropy_loss(shape, logits.data(), labels.data(), loss_alone.data());
    cross_entropy(shape, logits.data(), labels.data(), 0.25F, loss.data());
    reference::cross_entropy(shape, expected.data(), labels.data(), 0.25F, expected_loss.data());
    expect_near_all(logits, expected, 2e-6, 3e-8);
    EXPECT_EQ(loss, loss_alone);
    for (size_t r = 0; r < loss.size(); ++r) EXPECT_NEAR(loss[r], expected_loss[r], 2e-7 * (1 + expected_loss[r]));
  }
}

TEST_P(Layers, CrossEntropyKeepsLargeLogitsInRangeAndShowsNonFiniteOnes) {
  const int64_t label = 1;
  double loss = 0;
  std::vector<float> large{3e38F, -3e38F, 0.0F};
  cross_entropy({1, 3, 3}, large.data(), &label, 1.0F, &loss);
  EXPECT_EQ(large, (std::vector<float>{1, -1, 0}));
  EXPECT_TRUE(std::isfinite(loss));

  std::vector<float> masked{0.0F, 0.0F, -kInfinity};
  cross_entropy({1, 3, 3}, masked.data(), &label, 1.0F, &loss);
  EXPECT_NEAR(loss, std::log(2.0), 1e-7);
  EXPECT_EQ(masked[2], 0.0F);

  for (const float bad : {kNan, kInfinity}) {
    for (size_t position = 0; position < 70; ++position) {
      std::vector<float> logits(70, 1.0F);
      logits[position] = bad;
      cross_entropy({1, 70, 70}, logits.data(), &label, 1.0F, &loss);
      EXPECT_FALSE(std::isfinite(loss)) << position;
    }
  }
}

}  // namespace
}  // namespace lockstep::kernels
