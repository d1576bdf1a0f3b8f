#include "launch/supervisor.h"

#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "launch/orphan_guard.h"
#include "launch/port.h"
#include "lockstep/error.h"

namespace lockstep::launch {
namespace {

using Clock = std::chrono::steady_clock;
using Time = Clock::time_point;
using std::chrono::milliseconds;

constexpr std::array kStopSignals{SIGINT, SIGTERM, SIGHUP, SIGQUIT};
constexpr std::array kUserSignals{SIGUSR1, SIGUSR2};

/// A process killed with SIGKILL is gone within milliseconds, unless it hangs in the kernel: then nobody can wait.
constexpr milliseconds kAfterKill{5000};
/// Not every end of a grandchild is an event for us; so groups without their leader are looked at this often.
constexpr milliseconds kGroupPoll{20};

/// Our own programs exit so when a peer or the store was lost.
constexpr int kCommunicationError = 4;

/// Collects the supervisor's signals in a descriptor, and makes this process the parent of orphans below it, so that
/// their end is a SIGCHLD too.  Gives everything back as it was.
class SignalQueue {
 public:
  SignalQueue() {
    sigset_t watched;
    sigemptyset(&watched);
    sigaddset(&watched, SIGCHLD);
    // Signals that the caller ignores stay ignored, here and by the ranks: so does nohup with SIGHUP.
    const auto watch = [&watched](int signal) {
      struct sigaction action {};
      if (::sigaction(signal, nullptr, &action) == 0 && action.sa_handler != SIG_IGN) sigaddset(&watched, signal);
    };
    std::ranges::for_each(kStopSignals, watch);
    std::ranges::for_each(kUserSignals, watch);
    // Inherited from some parents, SIG_IGN would make the kernel reap children before their status is read.
    struct sigaction standard {};
    standard.sa_handler = SIG_DFL;
    ::sigaction(SIGCHLD, &standard, &old_child_action_);
    ::pthread_sigmask(SIG_BLOCK, &watched, &old_mask_);
    ::prctl(PR_GET_CHILD_SUBREAPER, &old_subreaper_);
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    fd_ = ::signalfd(-1, &watched, SFD_NONBLOCK | SFD_CLOEXEC);
    if (fd_ < 0) {
      const int error = errno;
      restore();
      throw IoError(fmt::format("cannot watch signals: {}", std::strerror(error)));
    }
  }
  ~SignalQueue() {
    ::close(fd_);
    restore();
  }
  SignalQueue(const SignalQueue&) = delete;
  SignalQueue& operator=(const SignalQueue&) = delete;

  [[nodiscard]] const sigset_t& old_mask() const { return old_mask_; }
  /// Waits for a signal until `deadline` (none: for ever).
  void wait(std::optional<Time> deadline) const {
    int timeout = -1;
    if (deadline) {
      const auto left = std::chrono::ceil<milliseconds>(*deadline - Clock::now()).count();
      timeout = static_cast<int>(std::clamp<int64_t>(left, 0, 60'000));
    }
    pollfd entry{.fd = fd_, .events = POLLIN, .revents = 0};
    ::poll(&entry, 1, timeout);
  }
  /// 0: none is left.
  [[nodiscard]] int next() const {
    signalfd_siginfo info{};
    return ::read(fd_, &info, sizeof info) == sizeof info ? static_cast<int>(info.ssi_signo) : 0;
  }

 private:
  void restore() {
    ::prctl(PR_SET_CHILD_SUBREAPER, old_subreaper_);
    ::pthread_sigmask(SIG_SETMASK, &old_mask_, nullptr);
    ::sigaction(SIGCHLD, &old_child_action_, nullptr);
  }

  int fd_ = -1;
  sigset_t old_mask_{};
  int old_subreaper_ = 0;
  struct sigaction old_child_action_ {};
};

struct Rank {
  pid_t pid = 0;                     // Also its group's id.
  bool running = false;              // The leader.
  bool group_alive = false;          // The leader or anything it started.
  std::optional<Time> kill_at{};     // Once it was asked to stop.
  std::optional<Time> give_up_at{};  // Once it was killed.
};

/// How likely a failure is the cause of the others seen with it.
int weight(const ExitStatus& status) {
  switch (status.signal) {
    case SIGKILL:
    case SIGSEGV:
    case SIGBUS:
    case SIGILL:
    case SIGFPE:
      return 2;
    default:
      return status.code == kCommunicationError ? 0 : 1;
  }
}

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

class Job {
 public:
  explicit Job(const SupervisorOptions& options)
      : options_(options), reservation_(options.port), ranks_(options.ranks.size()) {}
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  JobResult run();

 private:
  void start(int rank);
  [[nodiscard]] Environment environment_of(int rank) const;
  void take_signals();
  void reap();
  void note_failure(int rank, const ExitStatus& status);
  void settle_failure();
  void stop_all(int signal);
  void stop(Rank& rank, int signal);
  void kill_overdue();
  void look_at_group(Rank& rank);
  [[nodiscard]] bool all_gone() const;
  [[nodiscard]] std::optional<Time> next_deadline() const;

  const SupervisorOptions& options_;
  const PortReservation reservation_;
  OrphanGuard guard_;  // Before signals_, which would make it a child of this process.
  const SignalQueue signals_;
  std::vector<Rank> ranks_;

  bool stopping_ = false;  // What ranks do from here on is a consequence.
  int stopped_by_ = 0;
  std::optional<RankFailure> failure_{};
  std::optional<Time> settle_at_{};  // While failure_ may still turn out to be a consequence.
};

Job::~Job() {
  // Only after an exception are there any left.
  for (Rank& rank : ranks_) {
    if (!rank.group_alive) continue;
    ::kill(-rank.pid, SIGKILL);
    while (::waitpid(-rank.pid, nullptr, 0) > 0 || errno == EINTR) {
    }
  }
}

JobResult Job::run() {
  const int world = static_cast<int>(ranks_.size());
  options_.log.info(fmt::format("starting {} {} on this host, 127.0.0.1:{}", world, world == 1 ? "rank" : "ranks",
                                reservation_.port()));
  for (int rank = 0; rank < world; ++rank) start(rank);
  while (!all_gone()) {
    signals_.wait(next_deadline());
    take_signals();
    reap();
    settle_failure();
    kill_overdue();
  }
  JobResult result{.first_failure = failure_, .stopped_by = stopped_by_, .port = reservation_.port()};
  if (stopped_by_ != 0) {
    result.exit_code = 128 + stopped_by_;
  } else if (failure_) {
    result.exit_code = failure_->status.shell_code();
  }
  return result;
}

void Job::start(int rank) {
  const ChildSpec& spec = options_.ranks[static_cast<size_t>(rank)];
  ChildOptions child{
      .argv = spec.argv, .environment = environment_of(rank), .signal_mask = signals_.old_mask(), .guard = &guard_};
  child.environment.insert(child.environment.end(), spec.environment.begin(), spec.environment.end());
  Rank& entry = ranks_[static_cast<size_t>(rank)];
  entry.pid = start_child(child);
  entry.running = entry.group_alive = true;
}

Environment Job::environment_of(int rank) const {
  const int world = static_cast<int>(ranks_.size());
  Environment result{{"RANK", std::to_string(rank)},
                     {"WORLD_SIZE", std::to_string(world)},
                     {"LOCAL_RANK", std::to_string(rank)},
                     {"LOCAL_WORLD_SIZE", std::to_string(world)},
                     {"LOCAL_SIZE", std::to_string(world)},
                     {"MASTER_ADDR", "127.0.0.1"},
                     {"MASTER_PORT", std::to_string(reservation_.port())}};
  if (options_.threads_per_rank > 0 || std::getenv("OMP_NUM_THREADS") == nullptr) {
    const int threads = options_.threads_per_rank > 0 ? options_.threads_per_rank : default_threads_per_rank(world);
    result.emplace_back("OMP_NUM_THREADS", std::to_string(threads));
  }
  return result;
}

void Job::take_signals() {
  while (const int signal = signals_.next()) {
    if (std::ranges::count(kUserSignals, signal) != 0) {
      // To the leader alone: this signal kills whatever does not handle it.
      for (const Rank& rank : ranks_)
        if (rank.running) ::kill(rank.pid, signal);
    } else if (std::ranges::count(kStopSignals, signal) != 0) {
      if (stopped_by_ != 0) {
        for (Rank& rank : ranks_) rank.kill_at = Clock::now();
      } else {
        stopped_by_ = signal;
        options_.log.warning(fmt::format("{}: stopping all ranks; again to kill them at once", signal_name(signal)));
        stop_all(signal);
      }
    }
  }
}

void Job::reap() {
  for (size_t index = 0; index < ranks_.size(); ++index) {
    Rank& rank = ranks_[index];
    if (rank.running) {
      siginfo_t info{};
      // It stays a zombie, and its group's id stays taken, until the rest of the group was asked to stop.
      if (::waitid(P_PID, static_cast<id_t>(rank.pid), &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0)
        continue;
      stop(rank, SIGTERM);
      ::waitpid(rank.pid, nullptr, 0);
      rank.running = false;
      const ExitStatus status =
          info.si_code == CLD_EXITED ? ExitStatus{.code = info.si_status} : ExitStatus{.signal = info.si_status};
      if (status.failed()) note_failure(static_cast<int>(index), status);
    }
    if (rank.group_alive) look_at_group(rank);
  }
}

void Job::note_failure(int rank, const ExitStatus& status) {
  if (stopping_) return;
  if (failure_ && weight(status) <= weight(failure_->status)) return;
  const pid_t pid = ranks_[static_cast<size_t>(rank)].pid;
  failure_ =
      RankFailure{.rank = rank,
                  .status = status,
                  .message = fmt::format("rank {} {}; host {}, process {}", rank, describe(status), host_name(), pid)};
  if (!settle_at_) settle_at_ = Clock::now() + (weight(status) == 0 ? options_.settle : milliseconds{0});
}

void Job::settle_failure() {
  if (!settle_at_ || stopping_) return;
  const bool others_run = std::ranges::any_of(ranks_, &Rank::running);
  if (others_run && weight(failure_->status) == 0 && Clock::now() < *settle_at_) return;
  settle_at_.reset();
  options_.log.error(failure_->message + (others_run ? "; stopping the others" : ""));
  stop_all(SIGTERM);
}

void Job::stop_all(int signal) {
  stopping_ = true;
  settle_at_.reset();
  for (Rank& rank : ranks_)
    if (rank.group_alive) stop(rank, signal);
}

void Job::stop(Rank& rank, int signal) {
  ::kill(-rank.pid, signal);
  ::kill(-rank.pid, SIGCONT);  // A stopped process handles nothing else.
  if (!rank.kill_at) rank.kill_at = Clock::now() + options_.grace;
}

void Job::kill_overdue() {
  const Time now = Clock::now();
  for (size_t index = 0; index < ranks_.size(); ++index) {
    Rank& rank = ranks_[index];
    if (!rank.group_alive || !rank.kill_at || now < *rank.kill_at) continue;
    ::kill(-rank.pid, SIGKILL);
    if (!rank.give_up_at) rank.give_up_at = now + kAfterKill;
    rank.kill_at = now + kGroupPoll;  // Again, should it have forked just then.
    if (now < *rank.give_up_at) continue;
    options_.log.warning(
        fmt::format("rank {}: process group {} does not die; it hangs in the kernel, often on a disk "
                    "or a network file system",
                    index, rank.pid));
    rank.running = rank.group_alive = false;
    guard_.remove(rank.pid);
  }
}

void Job::look_at_group(Rank& rank) {
  if (rank.running) return;
  while (::waitpid(-rank.pid, nullptr, WNOHANG) > 0) {  // Orphans that came to us.
  }
  if (::kill(-rank.pid, 0) == 0) return;
  rank.group_alive = false;
  guard_.remove(rank.pid);
}

bool Job::all_gone() const {
  return std::ranges::none_of(ranks_, [](const Rank& rank) { return rank.group_alive; });
}

std::optional<Time> Job::next_deadline() const {
  std::optional<Time> next = settle_at_;
  const auto consider = [&next](Time time) { next = next ? std::min(*next, time) : time; };
  for (const Rank& rank : ranks_) {
    if (!rank.group_alive) continue;
    if (rank.kill_at) consider(*rank.kill_at);
    if (!rank.running) consider(Clock::now() + kGroupPoll);
  }
  return next;
}

}  // namespace

int default_threads_per_rank(int ranks) {
  cpu_set_t usable;
  const int processors = ::sched_getaffinity(0, sizeof usable, &usable) == 0
                             ? CPU_COUNT(&usable)
                             : static_cast<int>(std::thread::hardware_concurrency());
  return std::max(1, processors / std::max(1, ranks));
}

JobResult supervise(const SupervisorOptions& options) {
  if (options.ranks.empty()) throw ConfigError("a job needs at least one rank");
  for (const ChildSpec& spec : options.ranks)
    if (spec.argv.empty()) throw ConfigError("no program to launch; write it after --");
  return Job(options).run();
}

}  // namespace lockstep::launch
