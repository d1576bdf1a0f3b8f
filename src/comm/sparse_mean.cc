#include "comm/sparse_mean.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_unique2.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <span>
#include <vector>

#include "base/check.h"
#include "kernels/sums.h"

namespace lockstep::comm {
namespace {

constexpr int64_t kBlock = 64;

bool is_zero(const float* block) {
  // Bits: a negative zero travels, as it does in a dense sum.
  return std::all_of(reinterpret_cast<const uint32_t*>(block), reinterpret_cast<const uint32_t*>(block) + kBlock,
                     [](uint32_t bits) { return bits == 0; });
}

/// Blocks of one rank: int64 [count] and [count, 64].
struct Blocks {
  at::Tensor indices{};
  at::Tensor values{};
};

Blocks empty_blocks(int64_t count, at::ScalarType type) {
  return {.indices = at::empty({count}, at::kLong), .values = at::empty({count, kBlock}, type)};
}

Blocks blocks_of(const at::Tensor& values, at::ScalarType wire_type) {
  std::vector<int64_t> found;
  for (int64_t block = 0; block < values.numel() / kBlock; ++block)
    if (!is_zero(values.const_data_ptr<float>() + block * kBlock)) found.push_back(block);
  const at::Tensor indices = at::empty({std::ssize(found)}, at::kLong);
  std::ranges::copy(found, indices.mutable_data_ptr<int64_t>());
  return {.indices = indices, .values = at::index_select(values.view({-1, kBlock}), 0, indices).to(wire_type)};
}

/// Every rank's, in rank order.
std::vector<Blocks> exchange(Communicator& group, const Blocks& own, const Message& message) {
  const int64_t count = own.indices.numel();
  std::vector<int64_t> counts(static_cast<size_t>(group.size()));
  group.all_gather_records(std::as_bytes(std::span(&count, 1)), std::as_writable_bytes(std::span(counts)),
                           message.what);
  std::vector<Blocks> all;
  std::vector<Handle> transfers;
  for (int rank = 0; rank < group.size(); ++rank) {
    const int64_t theirs = counts[static_cast<size_t>(rank)];
    all.push_back(rank == group.rank() ? own : empty_blocks(theirs, own.values.scalar_type()));
    if (rank == group.rank() || theirs == 0) continue;
    transfers.push_back(group.start_receive(all.back().indices, rank, message));
    transfers.push_back(group.start_receive(all.back().values.view({-1}), rank, message));
  }
  for (int step = 1; step < group.size() && count > 0; ++step) {
    const int peer = (group.rank() + step) % group.size();
    transfers.push_back(group.start_send(own.indices, peer, message));
    transfers.push_back(group.start_send(own.values.view({-1}), peer, message));
  }
  for (Handle& transfer : transfers) transfer.wait();
  return all;
}

}  // namespace

void sparse_mean(Communicator& group, const at::Tensor& values, at::ScalarType wire_type, Message message,
                 int* non_finite_rank) {
  LOCKSTEP_CHECK(values.dim() == 1 && values.is_contiguous() && values.scalar_type() == at::kFloat);
  LOCKSTEP_CHECK_EQ(values.numel() % kBlock, 0);
  const at::NoGradGuard no_grad;
  const std::vector<Blocks> all = exchange(group, blocks_of(values, wire_type), message);

  // The blocks that any rank has, where each rank's are dense.
  std::vector<at::Tensor> indices;
  for (const Blocks& blocks : all) indices.push_back(blocks.indices);
  const auto [held, row, counts] = at::_unique2(at::cat(indices), /*sorted=*/true, /*return_inverse=*/true);
  const int64_t rows = held.numel();
  if (rows == 0) return;
  const at::Tensor dense = at::zeros({group.size(), rows, kBlock}, at::kFloat);
  std::vector<const float*> contributions;
  int64_t begin = 0;
  for (int rank = 0; rank < group.size(); ++rank) {
    const Blocks& blocks = all[static_cast<size_t>(rank)];
    const int64_t count = blocks.indices.numel();
    at::Tensor of_rank = dense.select(0, rank);
    of_rank.index_copy_(0, row.narrow(0, begin, count), blocks.values.to(at::kFloat));
    contributions.push_back(of_rank.const_data_ptr<float>());
    begin += count;
  }
  at::Tensor mean = at::empty({rows, kBlock}, at::kFloat);
  std::vector<uint8_t> non_finite(static_cast<size_t>(group.size()), 0);
  kernels::sum_mean(contributions, mean.numel(), mean.mutable_data_ptr<float>(), non_finite);
  values.view({-1, kBlock}).index_copy_(0, held, mean.to(wire_type).to(at::kFloat));

  const auto first = std::ranges::find_if(non_finite, [](uint8_t flag) { return flag != 0; });
  if (non_finite_rank != nullptr && first != non_finite.end())
    *non_finite_rank = static_cast<int>(first - non_finite.begin());
}

}  // namespace lockstep::comm
