// Causal softmax and its gradient against fp64, at every SIMD level.
#include "kernels/attention.h"

#include <gtest/gtest.h>

#include <cmath>

#include "levels.h"

namespace lockstep::kernels {
namespace {

class AttentionKernels : public AtEveryLevel {
 protected:
  static std::vector<CausalBlock> blocks() {
    return {{.rows = 1, .columns = 1, .stride = 1, .visible = 1},
            {.rows = 3, .columns = 5, .stride = 16, .visible = 2},
            {.rows = 64, .columns = 64, .stride = 64, .visible = 1},
            {.rows = 9, .columns = 137, .stride = 144, .visible = 129}};
  }

  static std::vector<float> softmax(const CausalBlock& block, const std::vector<float>& scores) {
    std::vector<float> result = scores;
    for (int64_t r = 0; r < block.rows; ++r) {
      float* row = result.data() + r * block.stride;
      const int64_t seen = block.visible + r;
      const double peak = *std::max_element(row, row + seen);
      double sum = 0;
      for (int64_t c = 0; c < seen; ++c) sum += std::exp(row[c] - peak);
      for (int64_t c = 0; c < block.columns; ++c)
        row[c] = c < seen ? static_cast<float>(std::exp(row[c] - peak) / sum) : 0.0F;
    }
    return result;
  }
};

TEST_P(AttentionKernels, SoftmaxSeesNothingAfterItsRow) {
  for (const CausalBlock& block : blocks()) {
    const auto scores = random_values(block.rows * block.stride, 1, 3.0F);
    auto actual = scores;
    causal_softmax(block, actual.data());
    expect_near_all(actual, softmax(block, scores), 2e-6, 1e-30);
  }
}

TEST_P(AttentionKernels, HugeScoresStayFinite) {
  const CausalBlock block{.rows = 1, .columns = 20, .stride = 20, .visible = 20};
  std::vector<float> scores(20, -3e38F);
  scores[7] = 3e38F;
  causal_softmax(block, scores.data());
  for (size_t i = 0; i < scores.size(); ++i) EXPECT_EQ(scores[i], i == 7 ? 1.0F : 0.0F);
}

TEST_P(AttentionKernels, NanInARowIsSeen) {
  const CausalBlock block{.rows = 1, .columns = 20, .stride = 20, .visible = 20};
  for (const size_t place : {0U, 9U, 19U}) {
    std::vector<float> scores(20, 1.0F);
    scores[place] = NAN;
    causal_softmax(block, scores.data());
    EXPECT_TRUE(std::isnan(scores[3])) << place;
  }
}

TEST_P(AttentionKernels, GradientIsThatOfSoftmax) {
  constexpr float kScale = 0.125F;
  for (const CausalBlock& block : blocks()) {
    const auto p = softmax(block, random_values(block.rows * block.stride, 1));
    auto upstream = random_values(block.rows * block.stride, 2);
    auto expected = upstream;
    for (int64_t r = 0; r < block.rows; ++r) {
      const int64_t start = r * block.stride;
      double dot = 0;
      for (int64_t c = 0; c < block.visible + r; ++c) dot += double{p[start + c]} * upstream[start + c];
      for (int64_t c = 0; c < block.columns; ++c)
        expected[start + c] =
            c < block.visible + r ? static_cast<float>(kScale * p[start + c] * (upstream[start + c] - dot)) : 0.0F;
      // Whatever a product left where the row does not see is not read.
      for (int64_t c = block.visible + r; c < block.columns; ++c) upstream[start + c] = NAN;
    }
    causal_softmax_backward(block, p.data(), kScale, upstream.data());
    expect_near_all(upstream, expected, 1e-5, 1e-7);
  }
}

INSTANTIATE_TEST_SUITE_P(Levels, AttentionKernels, testing::ValuesIn(compiled_levels()), level_name);

}  // namespace
}  // namespace lockstep::kernels
