#include "zero/gradient_reducer.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "comm/local/local_group.h"
#include "plan/plan.h"

namespace lockstep::zero {
namespace {

using Case = std::tuple<int /*world*/, int /*accumulation*/, int64_t /*bucket*/, bool /*overlap*/>;

plan::ParameterTable table() {
  plan::ParameterTable table;
  const std::vector<std::vector<int64_t>> units{{57}, {1, 130}, {700, 64}};
  for (size_t unit = 0; unit < units.size(); ++unit) {
    table.units.push_back("unit" + std::to_string(unit));
    for (const int64_t numel : units[unit])
      table.parameters.push_back({.name = "p" + std::to_string(table.parameters.size()),
                                  .shape = {numel},
                                  .numel = numel,
                                  .unit = static_cast<int>(unit)});
  }
  return table;
}

/// The gradient of parameter p is this, by (rank, micro-batch); parameter 2 is unused on odd ranks.
at::Tensor coefficients(int rank, int micro, size_t p, int64_t numel) {
  if (p == 2 && rank % 2 == 1) return at::zeros({numel});
  return at::sin(at::arange(numel, at::kFloat) * 0.37 + static_cast<double>(p) + 3.0 * rank + 11.0 * micro);
}

class GradientReducerTest : public testing::TestWithParam<Case> {};

TEST_P(GradientReducerTest, GivesTheMeanInRankOrder) {
  const auto [world, accumulation, bucket, overlap] = GetParam();
  comm::run_ranks(world, [&, accumulation = accumulation, bucket = bucket, overlap = overlap](Communicator& group) {
    const plan::Plan plan =
        plan::make_plan(table(), {.world_size = group.size(), .accumulation = accumulation, .bucket_numel = bucket});
    std::vector<at::Tensor> leaves;
    for (const auto& parameter : plan.table.parameters)
      leaves.push_back(at::ones({parameter.numel}).set_requires_grad(true));
    GradientReducer reducer(group, plan, leaves, {.overlap = overlap});

    for (int step = 0; step < 2; ++step) {
      for (int micro = 0; micro < accumulation; ++micro) {
        reducer.start_backward(micro == accumulation - 1 ? Reduce::last_means : Reduce::none);
        at::Tensor loss = at::zeros({});
        for (size_t p = 0; p < leaves.size(); ++p) {
          if (p == 2 && group.rank() % 2 == 1) continue;
          loss = loss + (leaves[p] * coefficients(group.rank(), micro, p, leaves[p].numel())).sum();
        }
        loss.backward();
        reducer.finish_backward();
      }
      const ReducedNorm norm = reducer.finish();
      EXPECT_LT(norm.non_finite.rank, 0);

      for (const plan::Segment& segment : plan.segments) {
        at::Tensor sum;
        for (int rank = 0; rank < group.size(); ++rank) {
          at::Tensor of_rank;
          for (int micro = 0; micro < accumulation; ++micro) {
            const auto p = static_cast<size_t>(segment.parameter);
            const at::Tensor g = coefficients(rank, micro, p, leaves[p].numel());
            of_rank = of_rank.defined() ? of_rank + g : g;
          }
          sum = sum.defined() ? sum + of_rank : of_rank;
        }
        const at::Tensor mean =
            (sum * (1.0F / static_cast<float>(group.size()))).narrow(0, segment.parameter_begin, segment.numel);
        const at::Tensor got = at::from_blob(const_cast<void*>(reducer.gradient(segment).data), {segment.numel});
        EXPECT_TRUE(at::equal(mean, got)) << "parameter " << segment.parameter;
      }
      reducer.release();
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Cross, GradientReducerTest,
                         testing::Combine(testing::Values(1, 2, 3, 4), testing::Values(1, 3),
                                          testing::Values(1, 64, 1000, 1 << 20), testing::Bool()));

TEST(GradientReducerFaultTest, NamesRankAndParameterOfANaN) {
  comm::run_ranks(3, [](Communicator& group) {
    const plan::Plan plan = plan::make_plan(table(), {.world_size = 3, .bucket_numel = 1 << 20});
    std::vector<at::Tensor> leaves;
    for (const auto& parameter : plan.table.parameters)
      leaves.push_back(at::ones({parameter.numel}).set_requires_grad(true));
    GradientReducer reducer(group, plan, leaves, {});
    reducer.start_backward(Reduce::last_means);
    at::Tensor loss = at::zeros({});
    for (size_t p = 0; p < leaves.size(); ++p)
      loss = loss + leaves[p].sum() * (p == 3 && group.rank() == 1 ? std::nan("") : 1.0);
    loss.backward();
    reducer.finish_backward();
    const ReducedNorm norm = reducer.finish();
    const bool owns = std::any_of(plan.segments.begin(), plan.segments.end(), [&](const plan::Segment& segment) {
      return segment.parameter == 3 && segment.owner == group.rank();
    });
    EXPECT_EQ(norm.non_finite.rank, owns ? 1 : -1);
    EXPECT_EQ(norm.non_finite.parameter, owns ? 3 : -1);
  });
}

}  // namespace
}  // namespace lockstep::zero
