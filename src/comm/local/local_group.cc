#include "comm/local/local_group.h"

#include <ATen/core/Tensor.h>
#include <fmt/format.h>

#include <cstring>
#include <deque>
#include <map>
#include <random>
#include <thread>
#include <tuple>

#include "base/check.h"
#include "base/mutex.h"
#include "comm/transport.h"
#include "lockstep/error.h"

namespace lockstep::comm {
namespace {

/// One side of a transfer, until the other side comes.  All fields are guarded by the hub's mutex.
struct Post {
  at::Tensor tensor;
  bool done = false;
  std::string error{};
};

/// Where the ranks of one group meet.
class LocalHub {
 public:
  explicit LocalHub(int size) : left_(static_cast<size_t>(size)) {}

  std::shared_ptr<Post> post(const at::Tensor& tensor, int rank, const Transfer& transfer) {
    const bool send = transfer.direction == Transfer::Direction::send;
    auto mine = std::make_shared<Post>(Post{.tensor = tensor});
    const base::MutexLock lock(mutex_);
    const Key place = key(rank, transfer);
    Line& line = lines_[place];
    auto& others = send ? line.receives : line.sends;
    if (others.empty()) {
      (send ? line.sends : line.receives).push_back(mine);
      return mine;
    }
    const auto other = std::move(others.front());
    others.pop_front();
    if (line.sends.empty() && line.receives.empty()) lines_.erase(place);
    const Post& from = send ? *mine : *other;
    const Post& to = send ? *other : *mine;
    if (from.tensor.nbytes() == to.tensor.nbytes() && from.tensor.scalar_type() == to.tensor.scalar_type()) {
      std::memcpy(to.tensor.mutable_data_ptr(), from.tensor.const_data_ptr(), from.tensor.nbytes());
    } else {
      mine->error = other->error = fmt::format(
          "the two sides differ: {} bytes of {} were sent where {} bytes of {} are expected", from.tensor.nbytes(),
          c10::toString(from.tensor.scalar_type()), to.tensor.nbytes(), c10::toString(to.tensor.scalar_type()));
    }
    mine->done = other->done = true;
    changed_.notify_all();
    return mine;
  }

  /// Takes back a post that nobody matched: its tensor may go away.
  void withdraw(const std::shared_ptr<Post>& post, int rank, const Transfer& transfer) {
    const base::MutexLock lock(mutex_);
    if (post->done) return;
    const auto found = lines_.find(key(rank, transfer));
    if (found == lines_.end()) return;
    std::erase(found->second.sends, post);
    std::erase(found->second.receives, post);
  }

  enum class Outcome { done, late, left, failed };
  Outcome wait(const std::shared_ptr<Post>& post, const Transfer& transfer, const Failure& failure,
               std::chrono::milliseconds deadline, std::string& error) {
    const auto end = std::chrono::steady_clock::now() + deadline;
    const base::MutexLock lock(mutex_);
    while (!post->done && !failure.any() && !left_[static_cast<size_t>(transfer.peer)]) {
      if (changed_.wait_until(mutex_, end) == std::cv_status::timeout && !post->done) return Outcome::late;
    }
    error = post->error;
    if (post->done) return Outcome::done;
    return failure.any() ? Outcome::failed : Outcome::left;
  }

  void leave(int rank) {
    const base::MutexLock lock(mutex_);
    left_[static_cast<size_t>(rank)] = true;
    changed_.notify_all();
  }

 private:
  struct Line {
    std::deque<std::shared_ptr<Post>> sends;
    std::deque<std::shared_ptr<Post>> receives;
  };
  using Key = std::tuple<int, int, uint64_t>;  // sender, receiver, channel

  static Key key(int rank, const Transfer& transfer) {
    return transfer.direction == Transfer::Direction::send ? Key{rank, transfer.peer, transfer.channel}
                                                           : Key{transfer.peer, rank, transfer.channel};
  }

  base::Mutex mutex_;
  base::Condition changed_;
  std::map<Key, Line> lines_ LOCKSTEP_GUARDED_BY(mutex_);
  std::vector<bool> left_ LOCKSTEP_GUARDED_BY(mutex_);
};

class LocalTransport final : public Transport, public std::enable_shared_from_this<LocalTransport> {
 public:
  LocalTransport(std::shared_ptr<LocalHub> hub, int rank, int size, const LocalOptions& options)
      : Transport(rank, size, options.deadline),
        hub_(std::move(hub)),
        max_delay_(options.max_delay),
        random_(mix(options.seed, static_cast<uint64_t>(rank))) {}
  ~LocalTransport() override { hub_->leave(rank()); }

  std::unique_ptr<Handle::Pending> start(const at::Tensor& tensor, const Transfer& transfer) override;
  void check() const override { failure_.throw_if_any(); }

 private:
  class PendingTransfer;

  void delay() {
    if (max_delay_.count() == 0) return;
    std::chrono::microseconds time{0};
    {
      const base::MutexLock lock(mutex_);
      time = std::chrono::microseconds(static_cast<int64_t>(random_() % static_cast<uint64_t>(max_delay_.count() + 1)));
    }
    std::this_thread::sleep_for(time);
  }
  void wait(const std::shared_ptr<Post>& post, const Transfer& transfer);

  // Constant after construction.
  const std::shared_ptr<LocalHub> hub_;  // shared by the ranks
  const std::chrono::microseconds max_delay_;

  Failure failure_;

  base::Mutex mutex_;
  std::mt19937_64 random_ LOCKSTEP_GUARDED_BY(mutex_);
};

class LocalTransport::PendingTransfer final : public Handle::Pending {
 public:
  PendingTransfer(std::shared_ptr<LocalTransport> transport, std::shared_ptr<Post> post, const Transfer& transfer)
      : transport_(std::move(transport)), post_(std::move(post)), transfer_(transfer) {}
  ~PendingTransfer() override { transport_->hub_->withdraw(post_, transport_->rank(), transfer_); }

  void wait() override { transport_->wait(post_, transfer_); }

 private:
  const std::shared_ptr<LocalTransport> transport_;  // a handle may outlive its communicator
  const std::shared_ptr<Post> post_;                 // shared with the hub
  const Transfer transfer_;
};

std::unique_ptr<Handle::Pending> LocalTransport::start(const at::Tensor& tensor, const Transfer& transfer) {
  delay();
  return std::make_unique<PendingTransfer>(shared_from_this(), hub_->post(tensor, rank(), transfer), transfer);
}

void LocalTransport::wait(const std::shared_ptr<Post>& post, const Transfer& transfer) {
  check();
  delay();
  std::string error;
  const auto outcome = hub_->wait(post, transfer, failure_, deadline(), error);
  const auto bytes = static_cast<int64_t>(post->tensor.nbytes());
  if (outcome == LocalHub::Outcome::done && error.empty()) return;
  if (outcome == LocalHub::Outcome::failed) check();
  std::string message;
  if (outcome == LocalHub::Outcome::done)
    message = lost_message(transfer, bytes, error);
  else if (outcome == LocalHub::Outcome::late)
    message = deadline_message(transfer, bytes);
  else
    message = lost_message(transfer, bytes, "it left the group");
  message = failure_.record(message);
  hub_->leave(rank());
  throw CommError(message);
}

}  // namespace

std::vector<std::unique_ptr<Communicator>> local_group(int size, const LocalOptions& options) {
  LOCKSTEP_CHECK(size >= 1);
  const auto hub = std::make_shared<LocalHub>(size);
  std::vector<std::unique_ptr<Communicator>> ranks;
  for (int rank = 0; rank < size; ++rank)
    ranks.push_back(make_communicator(std::make_shared<LocalTransport>(hub, rank, size, options)));
  return ranks;
}

void run_ranks(int world, const std::function<void(Communicator&)>& fn, const LocalOptions& options) {
  auto ranks = local_group(world, options);
  base::Mutex mutex;
  std::exception_ptr first;
  std::vector<std::thread> threads;
  for (auto& rank : ranks) {
    threads.emplace_back([&fn, &mutex, &first, mine = std::move(rank)]() mutable {
      try {
        fn(*mine);
      } catch (...) {
        const base::MutexLock lock(mutex);
        if (!first) first = std::current_exception();
      }
      mine.reset();  // the rank leaves: who waits for it fails now
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (first) std::rethrow_exception(first);
}

}  // namespace lockstep::comm
