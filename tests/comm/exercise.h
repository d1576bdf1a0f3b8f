#pragma once

#include <ATen/ATen.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "comm/reduction.h"
#include "lockstep/communicator.h"

namespace lockstep::comm {

inline void require(bool condition, const char* text) {
  if (!condition) throw std::logic_error(text);
}
#define LOCKSTEP_REQUIRE(condition) ::lockstep::comm::require((condition), __FILE__ ": " #condition)

/// A value whose sums depend on their order.
inline float contribution_of(int rank, int64_t index) {
  const auto mixed = static_cast<uint32_t>((index * 2654435761U) ^ (static_cast<uint32_t>(rank) * 40503U));
  return static_cast<float>(mixed % 20011U) / 977.0F * (rank % 2 == 0 ? 1.0F : -1.01F);
}

/// The contribution of a rank to slices of `numel` for `size` ranks, in the wire dtype.
inline at::Tensor contributions_of(int rank, int size, int64_t numel, at::ScalarType dtype) {
  at::Tensor all = at::empty({numel * size}, at::kFloat);
  for (int64_t index = 0; index < all.numel(); ++index)
    all.mutable_data_ptr<float>()[index] = contribution_of(rank, index);
  return all.to(dtype);
}

inline at::Tensor expected_mean(int size, int64_t slice, int64_t numel, at::ScalarType dtype) {
  at::Tensor sum = at::zeros({numel}, at::kFloat);
  for (int rank = 0; rank < size; ++rank) {
    const at::Tensor part = contributions_of(rank, size, numel, dtype).narrow(0, slice * numel, numel).to(at::kFloat);
    if (rank == 0)
      sum.copy_(part);
    else
      sum.add_(part);
  }
  return sum.mul_(1.0F / static_cast<float>(size)).to(dtype);
}

inline bool same_bytes(const at::Tensor& a, const at::Tensor& b) {
  return a.nbytes() == b.nbytes() && a.scalar_type() == b.scalar_type() &&
         (a.nbytes() == 0 || std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0);
}

inline void add_to_digest(uint64_t& digest, const at::Tensor& tensor) {
  const auto* bytes = static_cast<const unsigned char*>(tensor.const_data_ptr());
  for (size_t index = 0; index < tensor.nbytes(); ++index) digest = (digest ^ bytes[index]) * 1099511628211U;
}

inline void exercise_reduction(Communicator& group, int64_t numel, at::ScalarType dtype, uint64_t& digest) {
  const int rank = group.rank();
  const int size = group.size();
  const auto before = group.traffic();
  at::Tensor contributions = contributions_of(rank, size, numel, dtype);
  at::Tensor own = contributions.narrow(0, rank * numel, numel);
  at::Tensor apart = at::empty({numel}, own.options());
  int non_finite = -1;
  start_reduce_scatter_mean(group, contributions, apart, {.tag = 7, .what = "apart"}, &non_finite).wait();
  start_reduce_scatter_mean(group, contributions, own, {.tag = 7, .what = "in place"}, &non_finite).wait();
  LOCKSTEP_REQUIRE(non_finite == -1);
  LOCKSTEP_REQUIRE(same_bytes(apart, own));
  LOCKSTEP_REQUIRE(same_bytes(own, expected_mean(size, rank, numel, dtype)));

  at::Tensor full = at::empty({numel * size}, own.options());
  start_all_gather(group, apart, full, {.tag = 8, .what = "apart"}).wait();
  start_all_gather(group, own, contributions, {.tag = 8, .what = "in place"}).wait();
  LOCKSTEP_REQUIRE(same_bytes(full, contributions));
  for (int peer = 0; peer < size; ++peer)
    LOCKSTEP_REQUIRE(same_bytes(full.narrow(0, peer * numel, numel), expected_mean(size, peer, numel, dtype)));
  add_to_digest(digest, full);

  const auto after = group.traffic();
  const int64_t bytes = 4 * (size - 1) * static_cast<int64_t>(own.nbytes());
  LOCKSTEP_REQUIRE(after.sent_bytes - before.sent_bytes == bytes);
  LOCKSTEP_REQUIRE(after.received_bytes - before.received_bytes == bytes);
}

inline void exercise_non_finite(Communicator& group) {
  // The two highest ranks send an infinity for slice 0: its owner names the lower one, the others name nobody.
  const int culprit = std::max(0, group.size() - 2);
  at::Tensor contributions = at::ones({group.size() * 5}, at::kFloat);
  if (group.rank() >= culprit) contributions.mutable_data_ptr<float>()[3] = std::numeric_limits<float>::infinity();
  at::Tensor mean = at::empty({5}, at::kFloat);
  int non_finite = -1;
  start_reduce_scatter_mean(group, contributions, mean, {.tag = 9, .what = "non-finite"}, &non_finite).wait();
  LOCKSTEP_REQUIRE(non_finite == (group.rank() == 0 ? culprit : -1));
}

inline void exercise_records(Communicator& group, size_t bytes) {
  std::vector<std::byte> mine(bytes, static_cast<std::byte>(group.rank() + 1));
  std::vector<std::byte> all(bytes * static_cast<size_t>(group.size()));
  group.all_gather_records(mine, all, "records");
  for (size_t index = 0; index < all.size(); ++index)
    LOCKSTEP_REQUIRE(all[index] == static_cast<std::byte>(index / bytes + 1));
}

inline void exercise_broadcast(Communicator& group, int64_t numel) {
  for (int root = 0; root < group.size(); ++root) {
    at::Tensor tensor = at::full({numel}, group.rank(), at::kLong);
    group.broadcast(tensor, root, "a tensor");
    LOCKSTEP_REQUIRE(at::equal(tensor, at::full({numel}, root, at::kLong)));
  }
}

/// Transfers with distinct tags received in the reverse order, and one tag that keeps its order.
inline void exercise_tags(Communicator& group) {
  constexpr int kCount = 16;
  const int size = group.size();
  if (size == 1) return;
  const int to = (group.rank() + 1) % size;
  const int from = (group.rank() + size - 1) % size;
  std::vector<at::Tensor> tensors;
  std::vector<Handle> handles;
  for (int index = 0; index < kCount; ++index) {
    tensors.push_back(at::full({1 + index * 500}, group.rank() * 100 + index, at::kInt));
    handles.push_back(group.start_send(tensors.back(), to, {.tag = static_cast<uint32_t>(index), .what = "tagged"}));
    tensors.push_back(at::full({3}, index, at::kInt));
    handles.push_back(group.start_send(tensors.back(), to, {.tag = 0xffffffffU, .what = "in order"}));
  }
  for (int index = kCount - 1; index >= 0; --index) {
    at::Tensor got = at::empty({1 + index * 500}, at::kInt);
    group.start_receive(got, from, {.tag = static_cast<uint32_t>(index), .what = "tagged"}).wait();
    LOCKSTEP_REQUIRE(got[0].item<int>() == from * 100 + index && got[-1].item<int>() == from * 100 + index);
  }
  for (int index = 0; index < kCount; ++index) {
    at::Tensor got = at::empty({3}, at::kInt);
    group.start_receive(got, from, {.tag = 0xffffffffU, .what = "in order"}).wait();
    LOCKSTEP_REQUIRE(got[1].item<int>() == index);
  }
  for (Handle& handle : handles) handle.wait();
}

/// Every operation with edge sizes; throws if a result is wrong.  Returns a digest of the reduced values.
inline uint64_t exercise(Communicator& group) {
  uint64_t digest = 14695981039346656037U;
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kHalf})
    for (const int64_t numel : {0, 1, 3, 64, 1001}) exercise_reduction(group, numel, dtype, digest);
  exercise_non_finite(group);
  for (const size_t bytes : {0, 1, 16, 65536}) exercise_records(group, bytes);
  for (const int64_t numel : {0, 1, 777}) exercise_broadcast(group, numel);
  exercise_tags(group);
  group.barrier("the end of the exercise");
  return digest;
}

/// The same in groups split from this one, and in groups split from those.
inline void exercise_splits(Communicator& group) {
  std::vector<int> even;
  std::vector<int> odd;
  for (int rank = 0; rank < group.size(); ++rank) (rank % 2 == 0 ? even : odd).push_back(rank);
  auto first = group.split(even);
  std::unique_ptr<Communicator> second;
  if (!odd.empty()) second = group.split(odd);
  auto whole = group.split([&] {
    std::vector<int> all = even;
    all.insert(all.end(), odd.begin(), odd.end());
    std::sort(all.begin(), all.end());
    return all;
  }());
  LOCKSTEP_REQUIRE((first != nullptr) == (group.rank() % 2 == 0));
  LOCKSTEP_REQUIRE((second != nullptr) == (group.rank() % 2 == 1));
  Communicator& mine = first ? *first : *second;
  LOCKSTEP_REQUIRE(mine.rank() == group.rank() / 2);
  LOCKSTEP_REQUIRE(mine.size() == static_cast<int>(first ? even.size() : odd.size()));
  LOCKSTEP_REQUIRE(mine.traffic().operations == 0);
  exercise(mine);
  auto alone = mine.split({0});
  LOCKSTEP_REQUIRE((alone != nullptr) == (mine.rank() == 0));
  if (alone) exercise(*alone);
  // Messages of two groups between the same two ranks, with the same tag, under way at once.
  if (group.size() == 1) return;
  const int to = (group.rank() + 1) % group.size();
  const int from = (group.rank() + group.size() - 1) % group.size();
  at::Tensor a = at::full({5}, 1, at::kInt);
  at::Tensor b = at::full({5}, 2, at::kInt);
  at::Tensor got_a = at::empty({5}, at::kInt);
  at::Tensor got_b = at::empty({5}, at::kInt);
  auto receive_b = whole->start_receive(got_b, from, {.tag = 3, .what = "b"});
  auto receive_a = group.start_receive(got_a, from, {.tag = 3, .what = "a"});
  auto send_a = group.start_send(a, to, {.tag = 3, .what = "a"});
  auto send_b = whole->start_send(b, to, {.tag = 3, .what = "b"});
  receive_a.wait();
  receive_b.wait();
  send_a.wait();
  send_b.wait();
  LOCKSTEP_REQUIRE(at::equal(got_a, a) && at::equal(got_b, b));
}

}  // namespace lockstep::comm
