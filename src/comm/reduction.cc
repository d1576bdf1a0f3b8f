#include "comm/reduction.h"

#include <ATen/core/Tensor.h>
#include <algorithm>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "kernels/sums.h"
#include "tensor/elements.h"

namespace lockstep::comm {
namespace {

/// Receives posted, then sends, each in a ring from this rank, so that no rank is everybody's first.
struct Exchange {
  std::vector<Handle> receives;
  std::vector<Handle> sends;

  template <class From, class To>
  Exchange(Communicator& group, Message message, const From& from_peer, const To& to_peer) {
    const int size = group.size();
    for (int step = 1; step < size; ++step) {
      const int peer = (group.rank() + size - step) % size;
      receives.push_back(group.start_receive(from_peer(peer), peer, message));
    }
    for (int step = 1; step < size; ++step) {
      const int peer = (group.rank() + step) % size;
      sends.push_back(group.start_send(to_peer(peer), peer, message));
    }
  }
  static void wait(std::vector<Handle>& handles) {
    for (Handle& handle : handles) handle.wait();
  }
};

at::Tensor slice_of(const at::Tensor& full, int index, int64_t numel) { return full.narrow(0, index * numel, numel); }

class ReduceScatterMean final : public Handle::Pending {
 public:
  ReduceScatterMean(Communicator& group, const at::Tensor& contributions, const at::Tensor& mean, Message message,
                    int* non_finite_rank)
      : rank_(group.rank()),
        size_(group.size()),
        mean_(mean),
        own_(slice_of(contributions, rank_, mean.numel())),
        received_(contributions.new_empty({size_ - 1, mean.numel()})),
        non_finite_rank_(non_finite_rank),
        exchange_(
            group, message, [this](int peer) { return received_.select(0, row(peer)); },
            [&](int peer) { return slice_of(contributions, peer, mean.numel()); }) {}

  void wait() override {
    Exchange::wait(exchange_.receives);
    sum();
    Exchange::wait(exchange_.sends);
  }

 private:
  /// Of the contribution of another rank in received_.
  int64_t row(int peer) const { return peer < rank_ ? peer : peer - 1; }

  void sum() {
    if (mean_.numel() == 0) return;
    std::vector<uint8_t> non_finite(static_cast<size_t>(size_), 0);
    if (mean_.scalar_type() == at::kFloat)
      sum_in_place(non_finite);
    else
      sum_widened(non_finite);
    if (non_finite_rank_ == nullptr) return;
    for (int peer = size_ - 1; peer >= 0; --peer)
      if (non_finite[static_cast<size_t>(peer)] != 0) *non_finite_rank_ = peer;
  }

  [[nodiscard]] const at::Tensor& contribution(int peer, at::Tensor& row_of_peer) const {
    if (peer == rank_) return own_;
    row_of_peer = received_.select(0, row(peer));
    return row_of_peer;
  }

  void sum_in_place(std::vector<uint8_t>& non_finite) const {
    std::vector<const float*> values;
    at::Tensor of_peer;
    for (int peer = 0; peer < size_; ++peer) values.push_back(contribution(peer, of_peer).const_data_ptr<float>());
    kernels::sum_mean(values, mean_.numel(), mean_.mutable_data_ptr<float>(), non_finite);
  }

  /// 16-bit contributions widen exactly; a stretch at a time, which stays in the cache.
  void sum_widened(std::vector<uint8_t>& non_finite) const {
    constexpr int64_t kStretch = 2048;
    std::vector<tensor::Elements> from;
    at::Tensor of_peer;
    for (int peer = 0; peer < size_; ++peer) from.push_back(tensor::elements_of(contribution(peer, of_peer)));
    const tensor::MutableElements to = tensor::mutable_elements_of(mean_);
    std::vector<std::vector<float>> scratch(static_cast<size_t>(size_));
    std::vector<float> mean(kStretch);
    std::vector<const float*> values(static_cast<size_t>(size_));
    for (int64_t begin = 0; begin < mean_.numel(); begin += kStretch) {
      const int64_t numel = std::min(kStretch, mean_.numel() - begin);
      for (size_t peer = 0; peer < from.size(); ++peer)
        values[peer] = tensor::widened(from[peer].from(begin), numel, scratch[peer]);
      kernels::sum_mean(values, numel, mean.data(), non_finite);
      tensor::convert({mean.data(), at::kFloat}, to.from(begin), numel);
    }
  }

  const int rank_;
  const int size_;
  const at::Tensor mean_;
  const at::Tensor own_;
  const at::Tensor received_;
  int* const non_finite_rank_;
  Exchange exchange_;  // last: its handles go before the tensors they fill
};

class AllGather final : public Handle::Pending {
 public:
  AllGather(Communicator& group, const at::Tensor& slice, const at::Tensor& full, Message message)
      : exchange_(
            group, message, [&](int peer) { return slice_of(full, peer, slice.numel()); },
            [&](int /*peer*/) { return slice; }) {}

  void wait() override {
    Exchange::wait(exchange_.receives);
    Exchange::wait(exchange_.sends);
  }

 private:
  Exchange exchange_;
};

}  // namespace

Handle start_reduce_scatter_mean(Communicator& group, const at::Tensor& contributions, const at::Tensor& mean,
                                 Message message, int* non_finite_rank) {
  LOCKSTEP_CHECK(contributions.dim() == 1 && mean.dim() == 1);
  LOCKSTEP_CHECK_EQ(contributions.numel(), mean.numel() * group.size());
  LOCKSTEP_CHECK(contributions.scalar_type() == mean.scalar_type());
  LOCKSTEP_CHECK(contributions.is_contiguous() && mean.is_contiguous());
  return Handle(std::make_unique<ReduceScatterMean>(group, contributions, mean, message, non_finite_rank));
}

Handle start_all_gather(Communicator& group, const at::Tensor& slice, const at::Tensor& full, Message message) {
  LOCKSTEP_CHECK(slice.dim() == 1 && full.dim() == 1);
  LOCKSTEP_CHECK_EQ(full.numel(), slice.numel() * group.size());
  LOCKSTEP_CHECK(slice.scalar_type() == full.scalar_type());
  LOCKSTEP_CHECK(slice.is_contiguous() && full.is_contiguous());
  const at::Tensor own = slice_of(full.detach(), group.rank(), slice.numel());
  // Neither recorded by autograd nor counted as a change of `full`, as the slices that arrive are not either.
  if (slice.numel() > 0 && own.const_data_ptr() != slice.const_data_ptr())
    std::memcpy(own.mutable_data_ptr(), slice.const_data_ptr(), slice.nbytes());
  return Handle(std::make_unique<AllGather>(group, slice, full, message));
}

}  // namespace lockstep::comm
