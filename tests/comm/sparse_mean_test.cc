#include "comm/sparse_mean.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "comm/local/local_group.h"
#include "comm/reduction.h"

namespace lockstep::comm {
namespace {

/// The mean by a reduction and a gather.
at::Tensor dense_mean(Communicator& group, const at::Tensor& values) {
  at::Tensor all = values.clone();
  const int64_t numel = values.numel() / group.size();
  const at::Tensor own = all.narrow(0, group.rank() * numel, numel);
  start_reduce_scatter_mean(group, all, own, {.tag = 1, .what = "test"}, nullptr).wait();
  start_all_gather(group, own, all, {.tag = 1, .what = "test"}).wait();
  return all;
}

/// `used` blocks of each rank are random, others zero.
at::Tensor values_of(int rank, int64_t blocks, int64_t used) {
  at::Tensor values = at::zeros({blocks, 64});
  for (int64_t i = 0; i < used; ++i)
    values.select(0, (i * 7 + rank * 3) % blocks) = at::sin(at::arange(64) * 0.3 + static_cast<double>(i + 100 * rank));
  return values.view({-1});
}

TEST(SparseMean, HasTheBitsOfTheDenseOne) {
  for (const int world : {1, 2, 3, 4}) {
    for (const int64_t used : {0, 1, 5, 12}) {
      run_ranks(world, [&](Communicator& group) {
        const at::Tensor values = values_of(group.rank(), int64_t{12} * world, group.rank() == 1 ? 0 : used);
        const at::Tensor expected = dense_mean(group, values);
        sparse_mean(group, values, at::kFloat, {.tag = 2, .what = "test"}, nullptr);
        EXPECT_TRUE(at::equal(values, expected)) << world << " ranks, " << used << " blocks";
      });
    }
  }
}

TEST(SparseMean, SendsWhatIsNotZero) {
  run_ranks(3, [&](Communicator& group) {
    const at::Tensor values = values_of(group.rank(), 3000, 5);
    const int64_t before = group.traffic().sent_bytes;
    sparse_mean(group, values, at::kFloat, {.tag = 2, .what = "test"}, nullptr);
    EXPECT_EQ(group.traffic().sent_bytes - before, 2 * (5 * (64 * 4 + 8) + 8));
  });
}

TEST(SparseMean, NamesTheRankThatIsNotFinite) {
  run_ranks(3, [&](Communicator& group) {
    const at::Tensor values = values_of(group.rank(), 30, 5);
    if (group.rank() == 2) values.narrow(0, 6 * 64, 1).fill_(std::nan(""));
    int rank = -1;
    sparse_mean(group, values, at::kFloat, {.tag = 2, .what = "test"}, &rank);
    EXPECT_EQ(rank, 2);
  });
}

}  // namespace
}  // namespace lockstep::comm
