#include "comm/gloo/gloo_communicator.h"

#include <fmt/format.h>
#include <signal.h>

#include <torch/csrc/distributed/c10d/exception.h>
#include <set>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "base/check.h"
#include "base/mutex.h"
#include "comm/gloo/abandonable.h"
#include "comm/gloo/connect.h"
#include "comm/gloo/local_address.h"
#include "comm/transport.h"
#include "lockstep/error.h"

// The one unit that includes c10d's headers: they cost ten seconds of compile time.
namespace lockstep::comm {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kLongestPoll{20};
constexpr milliseconds kShortestConnect{200};
// How much longer than its own deadline the connecting thread may take before it is left behind.
constexpr milliseconds kGrace{300};

/// Gloo writes without MSG_NOSIGNAL: a peer that is gone would kill this process without a word.
void ignore_sigpipe() {
  struct sigaction action {};
  if (::sigaction(SIGPIPE, nullptr, &action) != 0 || action.sa_handler != SIG_DFL) return;
  action.sa_handler = SIG_IGN;
  ::sigaction(SIGPIPE, &action, nullptr);
}

/// The first line of what c10d threw, without its stack trace.
std::string reason_of(const std::exception& error) {
  std::string text = error.what();
  text.resize(std::min(text.find('\n'), text.size()));
  return text;
}

milliseconds time_until(Clock::time_point end) {
  return std::max(milliseconds(1), std::chrono::ceil<milliseconds>(end - Clock::now()));
}

class GlooTransport final : public Transport, public std::enable_shared_from_this<GlooTransport> {
 public:
  GlooTransport(c10::intrusive_ptr<c10d::Backend> group, milliseconds deadline)
      : Transport(group->getRank(), group->getSize(), deadline), group_(std::move(group)) {}

  std::unique_ptr<Handle::Pending> start(const at::Tensor& tensor, const Transfer& transfer) override;
  void check() const override { failure_.throw_if_any(); }

 private:
  class PendingTransfer;

  void wait(c10d::Work& work, const Transfer& transfer, int64_t bytes);
  /// Keeps the first failure, ends every wait under way and throws.
  [[noreturn]] void fail(const std::string& message);

  // Constant after construction.
  const c10::intrusive_ptr<c10d::Backend> group_;

  Failure failure_;

  base::Mutex post_mutex_;  // the group counts its operations without a lock
  base::Mutex mutex_;
  std::set<c10d::Work*> under_way_ LOCKSTEP_GUARDED_BY(mutex_);
};

class GlooTransport::PendingTransfer final : public Handle::Pending {
 public:
  PendingTransfer(std::shared_ptr<GlooTransport> transport, c10::intrusive_ptr<c10d::Work> work,
                  const Transfer& transfer, int64_t bytes)
      : transport_(std::move(transport)), work_(std::move(work)), transfer_(transfer), bytes_(bytes) {
    const base::MutexLock lock(transport_->mutex_);
    transport_->under_way_.insert(work_.get());
  }
  ~PendingTransfer() override {
    const base::MutexLock lock(transport_->mutex_);
    transport_->under_way_.erase(work_.get());
  }

  void wait() override { transport_->wait(*work_, transfer_, bytes_); }

 private:
  const std::shared_ptr<GlooTransport> transport_;  // a handle may outlive its communicator
  const c10::intrusive_ptr<c10d::Work> work_;
  const Transfer transfer_;
  const int64_t bytes_;
};

std::unique_ptr<Handle::Pending> GlooTransport::start(const at::Tensor& tensor, const Transfer& transfer) {
  const auto bytes = static_cast<int64_t>(tensor.nbytes());
  // Gloo ends the process if a message is longer than what waits for it: with the length in the tag they never meet.
  const auto type = static_cast<uint64_t>(tensor.scalar_type());
  const int tag = static_cast<int>(mix(mix(transfer.channel, tensor.nbytes()), type) & 0x7fffffffU);
  // Detached: c10d refuses nothing, but its wrapper of the operation must not see a parameter that requires grad.
  std::vector<at::Tensor> tensors{tensor.detach()};
  c10::intrusive_ptr<c10d::Work> work;
  try {
    const base::MutexLock lock(post_mutex_);
    work = transfer.direction == Transfer::Direction::send ? group_->send(tensors, transfer.peer, tag)
                                                           : group_->recv(tensors, transfer.peer, tag);
  } catch (const std::exception& error) {
    fail(lost_message(transfer, bytes, reason_of(error)));
  }
  return std::make_unique<PendingTransfer>(shared_from_this(), std::move(work), transfer, bytes);
}

void GlooTransport::wait(c10d::Work& work, const Transfer& transfer, int64_t bytes) {
  check();
  const auto end = Clock::now() + deadline();
  std::string reason;
  try {
    if (work.wait(deadline())) return;
    reason = "the wait was ended";
  } catch (const std::exception& error) {
    reason = reason_of(error);
  }
  // A deadline of this rank, here or on another thread, closes all connections: it is the cause, they are not.
  if (Clock::now() >= end) fail(deadline_message(transfer, bytes));
  if (reason.find("Application timeout") != std::string::npos) {
    const auto patience = Clock::now() + std::chrono::seconds(1);
    while (!failure_.any() && Clock::now() < patience) std::this_thread::sleep_for(milliseconds(1));
  }
  fail(lost_message(transfer, bytes, reason));
}

void GlooTransport::fail(const std::string& message) {
  const std::string first = failure_.record(message);
  {
    const base::MutexLock lock(mutex_);
    for (c10d::Work* work : under_way_) {
      try {
        work->abort();
      } catch (const std::exception&) {
        // A kind of work that cannot be ended runs into its own deadline.
      }
    }
  }
  throw CommError(first);
}

/// Brings this rank into the group; runs on a thread that may be left behind.
class Joining {
 public:
  explicit Joining(const GlooOptions& options) : options_(options), end_(Clock::now() + options.deadline) {}

  void run();
  /// What it is or was doing, to say so if it did not end.
  std::string message(std::string_view reason) const;

  c10::intrusive_ptr<c10d::Backend> take_group() {
    const base::MutexLock lock(mutex_);
    return std::move(group_);
  }

 private:
  void open_store();
  void meet();
  void connect_all();
  void set_step(std::string step) {
    const base::MutexLock lock(mutex_);
    step_ = std::move(step);
  }
  std::string key(std::string_view name, int rank) const { return fmt::format("{}/{}", name, rank); }
  std::string place() const { return fmt::format("{}:{}", options_.store_host, options_.store_port); }

  const GlooOptions options_;
  const Clock::time_point end_;

  // Used by the thread that runs.
  c10::intrusive_ptr<c10d::Store> store_;

  mutable base::Mutex mutex_;
  std::string step_ LOCKSTEP_GUARDED_BY(mutex_) = "starting";
  c10::intrusive_ptr<c10d::Backend> group_ LOCKSTEP_GUARDED_BY(mutex_);
};

void Joining::run() {
  open_store();
  meet();
  connect_all();
}

std::string Joining::message(std::string_view reason) const {
  const base::MutexLock lock(mutex_);
  const std::string tail = reason.empty() ? std::string() : fmt::format(" [{}]", reason);
  return fmt::format("rank {} of {}: {}{}", options_.rank, options_.size, step_, tail);
}

void Joining::open_store() {
  c10d::TCPStoreOptions store_options;
  store_options.port = static_cast<uint16_t>(options_.store_port);
  store_options.isServer = options_.host_store;
  store_options.waitWorkers = false;
  store_options.masterListenFd = options_.listen_fd;
  c10::intrusive_ptr<c10d::Store> store;
  if (options_.host_store) {
    set_step(
        fmt::format("cannot open port {} on this host for the ranks to meet at: it is in use by another program, "
                    "or not allowed; choose another MASTER_PORT",
                    options_.store_port));
    store_options.timeout = time_until(end_);
    store = c10::make_intrusive<c10d::TCPStore>(options_.store_host, store_options);
  } else {
    set_step(
        fmt::format("waited {} for the store of rank 0 at {}, which does not answer: start rank 0, or correct "
                    "MASTER_ADDR and MASTER_PORT",
                    seconds_text(options_.deadline), place()));
    while (!store) {
      // c10d takes up to twice the time it is given.
      store_options.timeout = std::max(kShortestConnect, time_until(end_) / 2);
      try {
        store = c10::make_intrusive<c10d::TCPStore>(options_.store_host, store_options);
      } catch (const std::exception&) {
        if (time_until(end_) <= kShortestConnect) throw;
      }
    }
  }
  store->setTimeout(time_until(end_));
  store_ = c10::make_intrusive<c10d::PrefixStore>("lockstep/" + options_.store_prefix, std::move(store));
}

void Joining::meet() {
  const std::string lost =
      fmt::format("lost the store of rank 0 at {}: rank 0 ended or is stopped; its own message tells why", place());
  set_step(lost);
  if (store_->add(key("joined", options_.rank), 1) > 1) {
    set_step(
        fmt::format("another process has joined as rank {} too; give every process a RANK of its own", options_.rank));
    throw CommError("");
  }
  const std::string size = std::to_string(options_.size);
  store_->set(key("size", options_.rank), std::vector<uint8_t>(size.begin(), size.end()));

  for (int peer = 0; peer < options_.size; ++peer) {
    milliseconds pause{1};
    while (!store_->check({key("size", peer)})) {
      if (Clock::now() >= end_) {
        std::vector<int> missing;
        for (int rank = peer; rank < options_.size; ++rank)
          if (!store_->check({key("size", rank)})) missing.push_back(rank);
        set_step(fmt::format(
            "waited {} at {} for {}, which did not join; start {}, with the same MASTER_ADDR, "
            "MASTER_PORT and WORLD_SIZE",
            seconds_text(options_.deadline), place(), ranks_text(missing), missing.size() == 1 ? "it" : "them"));
        throw CommError("");
      }
      std::this_thread::sleep_for(pause);
      pause = std::min(pause * 2, kLongestPoll);
    }
    if (peer != 0) continue;
    const auto bytes = store_->get(key("size", 0));
    const std::string theirs(bytes.begin(), bytes.end());
    if (theirs == size) continue;
    set_step(fmt::format("rank 0 was started for {} ranks and this one for {}; give both the same WORLD_SIZE", theirs,
                         options_.size));
    throw CommError("");
  }
}

void Joining::connect_all() {
  set_step(
      fmt::format("could not connect to the other ranks within {}, though all have joined: a rank ended or is "
                  "stopped, or a firewall is between the hosts (GLOO_SOCKET_IFNAME names the interface to use)",
                  seconds_text(options_.deadline)));
  auto group_options = c10d::ProcessGroupGloo::Options::create(time_until(end_));
  group_options->threads = 1;
  const std::string address = local_address_towards(options_.store_host, options_.store_port);
  if (!options_.interface.empty())
    group_options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForInterface(options_.interface));
  else if (!address.empty())
    group_options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname(address));
  else
    group_options->devices.push_back(c10d::ProcessGroupGloo::createDefaultDevice());
  auto group = c10::make_intrusive<c10d::ProcessGroupGloo>(c10::make_intrusive<c10d::PrefixStore>("gloo", store_),
                                                           options_.rank, options_.size, std::move(group_options));
  const base::MutexLock lock(mutex_);
  group_ = std::move(group);
}

}  // namespace

std::unique_ptr<Communicator> wrap_group(c10::intrusive_ptr<c10d::Backend> group, milliseconds deadline) {
  LOCKSTEP_CHECK(deadline.count() > 0);
  ignore_sigpipe();
  return make_communicator(std::make_shared<GlooTransport>(std::move(group), deadline));
}

std::unique_ptr<Communicator> connect_gloo(const GlooOptions& options) {
  LOCKSTEP_CHECK(options.deadline.count() > 0 && options.rank >= 0 && options.rank < options.size);
  ignore_sigpipe();
  const auto joining = std::make_shared<Joining>(options);  // shared with a thread that may be left behind
  bool joined = false;
  std::string reason;
  try {
    joined = run_abandonable(options.deadline + kGrace, [joining] { joining->run(); });
  } catch (const std::exception& error) {
    reason = reason_of(error);
  }
  if (!joined) throw CommError(joining->message(reason));
  auto communicator = wrap_group(joining->take_group(), options.deadline);
  // The store lives in rank 0: nobody may leave before all are connected.
  communicator->barrier("start");
  return communicator;
}

}  // namespace lockstep::comm
