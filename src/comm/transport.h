#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "lockstep/communicator.h"

namespace lockstep::comm {

/// The first failure of a process group on this rank.  Thread-safe.
class Failure {
 public:
  /// Keeps `message` unless one is kept already, and returns the kept one.
  std::string record(const std::string& message);
  /// Throws the kept message as CommError.
  void throw_if_any() const;
  [[nodiscard]] bool any() const { return failed_.load(std::memory_order_acquire); }

 private:
  std::atomic<bool> failed_{false};
  mutable base::Mutex mutex_;
  std::string message_ LOCKSTEP_GUARDED_BY(mutex_);
};

/// One message between two ranks of a process group.
struct Transfer {
  enum class Direction { send, receive };
  Direction direction = Direction::send;
  int peer = 0;             ///< In the process group.
  uint64_t channel = 0;     ///< Equal on both sides; transfers of one channel between two ranks keep their order.
  std::string_view what{};  ///< Outlives the transfer.
  uint32_t tag = 0;         ///< The caller's, for messages.
  bool collective = false;  ///< Part of a call that every rank of a group makes.
};

/// What a process group does for the communicators over it: moves bytes between two ranks, with a deadline.
/// Thread-safe.  After a failure every call and every wait under way throws the first failure's message.
class Transport {
 public:
  Transport(int rank, int size, std::chrono::milliseconds deadline) : rank_(rank), size_(size), deadline_(deadline) {}
  virtual ~Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }
  [[nodiscard]] std::chrono::milliseconds deadline() const { return deadline_; }

  /// Requires: a contiguous tensor that is not empty, and a peer other than this rank.
  [[nodiscard]] virtual std::unique_ptr<Handle::Pending> start(const at::Tensor& tensor, const Transfer& transfer) = 0;
  /// Throws the first failure's message, if there was a failure.
  virtual void check() const = 0;

 protected:
  /// "rank 0: waited 2 s to receive X from rank 1 (...)": the deadline of this rank passed.
  [[nodiscard]] std::string deadline_message(const Transfer& transfer, int64_t bytes) const;
  /// The connection ended before the deadline: a consequence of what happened to the peer.
  [[nodiscard]] std::string lost_message(const Transfer& transfer, int64_t bytes, std::string_view reason) const;

 private:
  // Constant after construction.
  const int rank_;
  const int size_;
  const std::chrono::milliseconds deadline_;
};

/// The communicator of all ranks of a process group.  It and those split from it share the transport, its
/// connections and its first failure.
std::unique_ptr<Communicator> make_communicator(std::shared_ptr<Transport> transport);

/// Mixes a value into a hash; the order matters.
uint64_t mix(uint64_t hash, uint64_t value);
uint64_t mix(uint64_t hash, std::string_view text);

/// "1800 s", "1.5 s".
std::string seconds_text(std::chrono::milliseconds duration);
/// "rank 1", "ranks 1, 3".
std::string ranks_text(const std::vector<int>& ranks);

}  // namespace lockstep::comm
