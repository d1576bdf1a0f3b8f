#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <cmath>
#include <set>

#include "lockstep/data.h"
#include "lockstep/error.h"

namespace lockstep {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

/// Token i is i, with a vocabulary of its own.
class Counting final : public TokenSource {
 public:
  explicit Counting(int64_t size) : size_(size) {}
  [[nodiscard]] int64_t size() const override { return size_; }
  void read(int64_t offset, std::span<int64_t> into) const override {
    for (int64_t& token : into) token = offset++;
  }
  [[nodiscard]] int64_t vocabulary() const override { return size_; }
  [[nodiscard]] std::string name() const override { return "counting"; }

 private:
  const int64_t size_;
};

std::vector<int64_t> values(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.reshape({-1});
  return {flat.const_data_ptr<int64_t>(), flat.const_data_ptr<int64_t>() + flat.numel()};
}

std::vector<std::string> problems_of(int64_t tokens, const LoaderOptions& options) {
  try {
    const Loader loader(std::make_shared<Counting>(tokens), options);
  } catch (const ConfigError& error) {
    return error.problems();
  }
  return {};
}

TEST(LoaderTest, CutsSamplesThatShareTheirBorderToken) {
  // 21 tokens, T = 4: five samples, [0, 4], [4, 8] and so on; token 20 is only a target.
  const Loader loader(std::make_shared<Counting>(21), {.sequence_length = 4, .micro_batch = 2, .shuffle = false});
  EXPECT_EQ(loader.samples(), 5);
  const Batch batch = loader.at(0);
  EXPECT_EQ(batch.input.sizes(), (std::vector<int64_t>{2, 4}));
  EXPECT_EQ(batch.input.scalar_type(), at::kLong);
  EXPECT_THAT(values(batch.input), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_THAT(values(batch.target), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
  EXPECT_THAT(values(loader.at(2).input), ElementsAre(16, 17, 18, 19, 0, 1, 2, 3));
  EXPECT_EQ(values(loader.at(2).target)[3], 20);
}

TEST(LoaderTest, IncompleteLastSampleIsLeftOut) {
  EXPECT_EQ(Loader(std::make_shared<Counting>(20), {.sequence_length = 4}).samples(), 4);
  EXPECT_EQ(Loader(std::make_shared<Counting>(5), {.sequence_length = 4}).samples(), 1);
}

TEST(LoaderTest, RanksTogetherSeeEverySampleOfAnEpochOnce) {
  const auto source = std::make_shared<Counting>(12 * 4 + 1);
  for (bool shuffle : {false, true}) {
    std::set<int64_t> first_tokens;
    for (int rank = 0; rank < 3; ++rank) {
      const Loader loader(source,
                          {.sequence_length = 4, .micro_batch = 2, .rank = rank, .world = 3, .shuffle = shuffle});
      for (int64_t step = 0; step < 2; ++step)
        for (int64_t row = 0; row < 2; ++row) first_tokens.insert(loader.at(step).input[row][0].item<int64_t>());
    }
    EXPECT_EQ(first_tokens.size(), 12u);
  }
}

TEST(LoaderTest, PositionAloneDecidesTheBatchSoAResumeGoesOnWithTheSameSamples) {
  const auto source = std::make_shared<Counting>(1000);
  const LoaderOptions options{.sequence_length = 8, .micro_batch = 2, .rank = 1, .world = 2, .seed = 9};
  const Loader whole(source, options);
  for (int64_t step = 0; step < 30; ++step) (void)whole.at(step);
  const Loader resumed(source, options);
  for (int64_t step : {7, 40, 62}) EXPECT_EQ(values(resumed.at(step).input), values(whole.at(step).input));
}

TEST(LoaderTest, StaysWithinItsRange) {
  const Loader loader(std::make_shared<Counting>(100), {.sequence_length = 4, .first_token = 50, .token_count = 9});
  EXPECT_EQ(loader.samples(), 2);
  for (int64_t step = 0; step < 4; ++step) {
    EXPECT_GE(loader.at(step).input.min().item<int64_t>(), 50);
    EXPECT_LT(loader.at(step).target.max().item<int64_t>(), 59);
  }
}

TEST(LoaderTest, EvaluationVisitsEverySampleOnceWithARaggedEnd) {
  // 7 samples over 2 ranks with micro-batches of 2: the second round has 3 left.
  const auto source = std::make_shared<Counting>(7 * 4 + 1);
  std::vector<std::vector<int64_t>> firsts(2);
  std::vector<std::vector<int64_t>> counts(2);
  for (int rank = 0; rank < 2; ++rank) {
    const Loader loader(source, {.sequence_length = 4, .micro_batch = 2, .rank = rank, .world = 2});
    ASSERT_EQ(loader.evaluation_rounds(), 2);
    for (int64_t round = 0; round < 2; ++round) {
      const EvaluationBatch part = loader.evaluation_batch(round);
      counts[rank].push_back(part.samples);
      EXPECT_EQ(part.batch.input.size(0), part.samples);
      for (int64_t row = 0; row < part.samples; ++row)
        firsts[rank].push_back(part.batch.input[row][0].item<int64_t>() / 4);
    }
  }
  EXPECT_THAT(firsts[0], ElementsAre(0, 2, 4, 6));
  EXPECT_THAT(firsts[1], ElementsAre(1, 3, 5));
  EXPECT_THAT(counts[0], ElementsAre(2, 2));
  EXPECT_THAT(counts[1], ElementsAre(2, 1));
}

TEST(LoaderTest, EvaluationRankWithoutASampleGetsOneThatDoesNotCount) {
  const Loader loader(std::make_shared<Counting>(5), {.sequence_length = 4, .micro_batch = 2, .rank = 3, .world = 4});
  ASSERT_EQ(loader.evaluation_rounds(), 1);
  const EvaluationBatch part = loader.evaluation_batch(0);
  EXPECT_EQ(part.samples, 0);
  EXPECT_EQ(part.batch.input.sizes(), (std::vector<int64_t>{1, 4}));
}

TEST(LoaderTest, TooFewTokensNamesBothNumbersAndTheFlags) {
  EXPECT_THAT(problems_of(64, {.sequence_length = 64}),
              ElementsAre(AllOf(HasSubstr("counting: 64 tokens found"), HasSubstr("--seq-len 64 needs 65"),
                                HasSubstr("--data"))));
  EXPECT_THAT(
      problems_of(100, {.sequence_length = 16, .first_token = 90}),
      ElementsAre(AllOf(HasSubstr("10 tokens in the part used"), HasSubstr("needs 17"), HasSubstr("--eval-fraction"))));
}

TEST(LoaderTest, VocabularyLargerThanTheModelsIsRefused) {
  EXPECT_THAT(problems_of(300, {.sequence_length = 4, .model_vocabulary = 256}),
              ElementsAre(AllOf(HasSubstr("need a vocabulary of 300"), HasSubstr("the model has 256"))));
  EXPECT_TRUE(problems_of(256, {.sequence_length = 4, .model_vocabulary = 50257}).empty());
}

TEST(LoaderTest, AllProblemsAreListedAtOnce) {
  EXPECT_EQ(problems_of(10, {.sequence_length = 0, .micro_batch = 0, .rank = 2, .world = 2}).size(), 3u);
  EXPECT_EQ(problems_of(10, {.sequence_length = 2, .first_token = 5, .token_count = 6}).size(), 1u);
}

TEST(SplitTokensTest, HoldsBackTheLastPart) {
  EXPECT_EQ(split_tokens(1000, 0.1).training, (TokenRange{0, 900}));
  EXPECT_EQ(split_tokens(1000, 0.1).evaluation, (TokenRange{900, 100}));
  EXPECT_EQ(split_tokens(100, 0.29).evaluation, (TokenRange{71, 29}));
  EXPECT_EQ(split_tokens(7, 0).evaluation, (TokenRange{7, 0}));
  for (double fraction : {-0.1, 1.0, 1.5, std::nan("")}) EXPECT_THROW((void)split_tokens(10, fraction), ConfigError);
}

}  // namespace
}  // namespace lockstep
