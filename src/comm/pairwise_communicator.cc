#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "base/check.h"
#include "comm/transport.h"
#include "lockstep/error.h"

namespace lockstep::comm {
namespace {

constexpr uint64_t kPairwise = 1;
constexpr uint64_t kCollective = 2;
constexpr size_t kMaxRecordBytes = size_t{64} * 1024;

at::Tensor view_bytes(std::span<const std::byte> bytes) {
  // from_blob wants a mutable pointer; a sent tensor is only read.
  return at::from_blob(const_cast<std::byte*>(bytes.data()), {static_cast<int64_t>(bytes.size())}, at::kByte);
}

/// A communicator whose every operation is made of transfers between two ranks, so that a wait always knows its peer.
/// Collectives carry their kind, name, length and number in the channel: ranks that make different calls meet the
/// deadline and never a message of the wrong length.
class PairwiseCommunicator final : public Communicator {
 public:
  PairwiseCommunicator(std::shared_ptr<Transport> transport, std::vector<int> ranks, uint64_t group)
      : transport_(std::move(transport)),
        ranks_(std::move(ranks)),
        group_(group),
        rank_(static_cast<int>(std::ranges::find(ranks_, transport_->rank()) - ranks_.begin())) {}

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(ranks_.size()); }
  std::chrono::milliseconds deadline() const override { return transport_->deadline(); }
  TrafficCounters traffic() const override {
    return {.sent_bytes = sent_bytes_.load(std::memory_order_relaxed),
            .received_bytes = received_bytes_.load(std::memory_order_relaxed),
            .operations = operations_.load(std::memory_order_relaxed)};
  }

  Handle start_send(const at::Tensor& tensor, int peer, Message message) override {
    operations_.fetch_add(1, std::memory_order_relaxed);
    return start(tensor, peer, pairwise(Transfer::Direction::send, message));
  }
  Handle start_receive(const at::Tensor& tensor, int peer, Message message) override {
    operations_.fetch_add(1, std::memory_order_relaxed);
    return start(tensor, peer, pairwise(Transfer::Direction::receive, message));
  }

  void all_gather_records(std::span<const std::byte> mine, std::span<std::byte> all, std::string_view what) override;
  void broadcast(const at::Tensor& tensor, int root, std::string_view what) override;
  void barrier(std::string_view what) override;
  std::unique_ptr<Communicator> split(const std::vector<int>& ranks) override;

 private:
  Transfer pairwise(Transfer::Direction direction, const Message& message) const {
    return {.direction = direction,
            .channel = mix(mix(group_, kPairwise), message.tag),
            .what = message.what.empty() ? std::string_view("a message") : message.what,
            .tag = message.tag};
  }
  /// The channel of this rank's next collective.
  uint64_t next_channel(std::string_view kind, std::string_view what, uint64_t shape) {
    operations_.fetch_add(1, std::memory_order_relaxed);
    return mix(mix(mix(mix(mix(group_, kCollective), ++collectives_), kind), what), shape);
  }
  Handle start(const at::Tensor& tensor, int peer, Transfer transfer);
  void exchange(std::span<const std::byte> mine, std::span<std::byte> all, uint64_t channel, std::string_view what);

  // Constant after construction.
  const std::shared_ptr<Transport> transport_;  // shared with the communicators split from this one
  const std::vector<int> ranks_;                // of the process group
  const uint64_t group_;                        // what channels of this group start from
  const int rank_;

  // Used by the one thread that issues collectives.
  uint64_t collectives_ = 0;

  std::atomic<int64_t> sent_bytes_{0};
  std::atomic<int64_t> received_bytes_{0};
  std::atomic<int64_t> operations_{0};
};

Handle PairwiseCommunicator::start(const at::Tensor& tensor, int peer, Transfer transfer) {
  LOCKSTEP_CHECK(peer >= 0 && peer < size() && peer != rank_);
  LOCKSTEP_CHECK(tensor.is_contiguous());
  transport_->check();
  if (tensor.numel() == 0) return {};  // both sides know the length: there is nothing to move
  transfer.peer = ranks_[static_cast<size_t>(peer)];
  auto pending = transport_->start(tensor, transfer);
  const auto bytes = static_cast<int64_t>(tensor.nbytes());
  auto& counter = transfer.direction == Transfer::Direction::send ? sent_bytes_ : received_bytes_;
  counter.fetch_add(bytes, std::memory_order_relaxed);
  return Handle(std::move(pending));
}

void PairwiseCommunicator::exchange(std::span<const std::byte> mine, std::span<std::byte> all, uint64_t channel,
                                    std::string_view what) {
  std::vector<Handle> handles;
  handles.reserve(2 * ranks_.size());
  Transfer transfer{.direction = Transfer::Direction::receive, .channel = channel, .what = what, .collective = true};
  for (int peer = 0; peer < size(); ++peer) {
    if (peer == rank_) continue;
    const auto place = all.subspan(static_cast<size_t>(peer) * mine.size(), mine.size());
    handles.push_back(start(view_bytes(place), peer, transfer));
  }
  transfer.direction = Transfer::Direction::send;
  for (int step = 1; step < size(); ++step)
    handles.push_back(start(view_bytes(mine), (rank_ + step) % size(), transfer));
  for (Handle& handle : handles) handle.wait();
}

void PairwiseCommunicator::all_gather_records(std::span<const std::byte> mine, std::span<std::byte> all,
                                              std::string_view what) {
  LOCKSTEP_CHECK(mine.size() <= kMaxRecordBytes);
  LOCKSTEP_CHECK_EQ(all.size(), mine.size() * ranks_.size());
  const uint64_t channel = next_channel("records", what, mine.size());
  transport_->check();
  if (mine.empty()) return;
  std::memmove(all.data() + static_cast<size_t>(rank_) * mine.size(), mine.data(), mine.size());
  if (size() > 1) exchange(mine, all, channel, what);
}

void PairwiseCommunicator::broadcast(const at::Tensor& tensor, int root, std::string_view what) {
  LOCKSTEP_CHECK(root >= 0 && root < size());
  const uint64_t shape = mix(static_cast<uint64_t>(root), tensor.nbytes());
  Transfer transfer{.channel = next_channel("broadcast", what, shape), .what = what, .collective = true};
  transport_->check();
  if (rank_ != root) {
    transfer.direction = Transfer::Direction::receive;
    start(tensor, root, transfer).wait();
    return;
  }
  std::vector<Handle> handles;
  for (int step = 1; step < size(); ++step) handles.push_back(start(tensor, (rank_ + step) % size(), transfer));
  for (Handle& handle : handles) handle.wait();
}

void PairwiseCommunicator::barrier(std::string_view what) {
  const uint64_t channel = next_channel("barrier", what, 0);
  transport_->check();
  if (size() == 1) return;
  const std::string name = fmt::format("the arrival at the barrier \"{}\"", what);
  const std::byte mine{1};
  std::vector<std::byte> all(ranks_.size());
  exchange({&mine, 1}, all, channel, name);
}

std::unique_ptr<Communicator> PairwiseCommunicator::split(const std::vector<int>& ranks) {
  LOCKSTEP_CHECK(!ranks.empty() && std::ranges::is_sorted(ranks, std::less_equal<>()));
  LOCKSTEP_CHECK(ranks.front() >= 0 && ranks.back() < size());
  uint64_t group = next_channel("split", "", ranks.size());
  transport_->check();
  std::vector<int> members;
  for (const int rank : ranks) {
    group = mix(group, static_cast<uint64_t>(rank));
    members.push_back(ranks_[static_cast<size_t>(rank)]);
  }
  if (std::ranges::find(ranks, rank_) == ranks.end()) return nullptr;
  return std::make_unique<PairwiseCommunicator>(transport_, std::move(members), group);
}

}  // namespace

std::unique_ptr<Communicator> make_communicator(std::shared_ptr<Transport> transport) {
  std::vector<int> ranks(static_cast<size_t>(transport->size()));
  for (size_t index = 0; index < ranks.size(); ++index) ranks[index] = static_cast<int>(index);
  return std::make_unique<PairwiseCommunicator>(std::move(transport), std::move(ranks), 0);
}

}  // namespace lockstep::comm
