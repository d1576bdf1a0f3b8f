#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/export.h"

namespace at {
class Tensor;
}

namespace LOCKSTEP_API lockstep {

/// A transfer under way.  Move-only; every handle must be waited for (its tensors must live until then).
class [[nodiscard]] Handle {
 public:
  class Pending {
   public:
    virtual ~Pending() = default;
    /// Blocks until done or the deadline passed.  Throws CommError naming peer, operation and what was moved.
    virtual void wait() = 0;
  };

  Handle() = default;  ///< Already complete.
  explicit Handle(std::unique_ptr<Pending> pending) : pending_(std::move(pending)) {}
  /// Orders the caller's stream after the transfer; on a CPU it blocks.
  void wait() {
    if (auto pending = std::move(pending_)) pending->wait();
  }

 private:
  std::unique_ptr<Pending> pending_;
};

/// What a message is, for its deadline's text and for matching it with the peer's.
struct Message {
  uint32_t tag = 0;         ///< Planned by the caller: equal on both sides, distinct among transfers under way.
  std::string_view what{};  ///< Such as "gradients of transformer.h.3"; borrowed until the handle was waited for.
};

/// Bytes this rank has handed to the wire and taken from it, its own slices not counted.
struct TrafficCounters {
  int64_t sent_bytes = 0;
  int64_t received_bytes = 0;
  int64_t operations = 0;
};

/// A fixed group of ranks that exchange tensors.  Collectives are called by all ranks in the same order, by one
/// thread at a time; start_send and start_receive by any thread.  Every wait has a deadline, after which, as after
/// any failure, the communicator is poisoned: each later call throws the first error's CommError at once.
/// Tensors are contiguous; both sides of a transfer have equal dtype and length.
class Communicator {
 public:
  virtual ~Communicator() = default;

  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int size() const = 0;
  [[nodiscard]] virtual std::chrono::milliseconds deadline() const = 0;
  [[nodiscard]] virtual TrafficCounters traffic() const = 0;

  [[nodiscard]] virtual Handle start_send(const at::Tensor& tensor, int peer, Message message) = 0;
  [[nodiscard]] virtual Handle start_receive(const at::Tensor& tensor, int peer, Message message) = 0;

  /// Gives every rank the records of all, in rank order.  `mine` has the same size everywhere, at most 64 KiB;
  /// `all` has size() times that.  Blocks.
  virtual void all_gather_records(std::span<const std::byte> mine, std::span<std::byte> all, std::string_view what) = 0;
  /// Copies root's tensor to every rank.  Blocks.
  virtual void broadcast(const at::Tensor& tensor, int root, std::string_view what) = 0;
  /// Returns when all ranks have called it.  Blocks.
  virtual void barrier(std::string_view what) = 0;

  /// A group of some of these ranks, ascending; every rank of this communicator calls it with the same list and those
  /// outside get null.  Shares counters' meaning but not their values.
  [[nodiscard]] virtual std::unique_ptr<Communicator> split(const std::vector<int>& ranks) = 0;
};

}  // namespace lockstep
