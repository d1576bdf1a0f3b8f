#include "comm/gloo/gloo_communicator.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <thread>

#include "comm/exercise.h"
#include "comm/gloo/connect.h"
#include "comm/local/local_group.h"
#include "lockstep/error.h"

namespace lockstep::comm {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;

/// A listening socket on a free port of this host.
class Listener {
 public:
  Listener() : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    auto* generic = reinterpret_cast<sockaddr*>(&address);
    if (::bind(fd_, generic, length) != 0 || ::listen(fd_, 16) != 0 || ::getsockname(fd_, generic, &length) != 0)
      throw std::runtime_error("no free port");
    port_ = ntohs(address.sin_port);
  }
  ~Listener() { close(); }
  void close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }
  int fd() const { return fd_; }
  int port() const { return port_; }

 private:
  int fd_;
  int port_ = 0;
};

int free_port() { return Listener().port(); }

bool answers(int port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  const bool connected = ::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  ::close(fd);
  return connected;
}

/// A rank as a process of its own; killed at the latest with this object.
class RankProcess {
 public:
  RankProcess(const std::string& scenario, int rank, int size, int port, int listen_fd, milliseconds deadline) {
    std::array<int, 2> pipe{};
    if (::pipe2(pipe.data(), O_CLOEXEC) != 0) throw std::runtime_error("pipe");
    output_ = pipe[0];
    std::vector<std::string> words{LOCKSTEP_RANK_PROGRAM,
                                   scenario,
                                   std::to_string(rank),
                                   std::to_string(size),
                                   std::to_string(port),
                                   std::to_string(listen_fd),
                                   std::to_string(deadline.count())};
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, pipe[1], STDOUT_FILENO);
    ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    // A group in this process has ignored SIGPIPE, which a child would inherit.
    sigset_t defaults;
    ::sigemptyset(&defaults);
    ::sigaddset(&defaults, SIGPIPE);
    posix_spawnattr_t attributes;
    ::posix_spawnattr_init(&attributes);
    ::posix_spawnattr_setsigdefault(&attributes, &defaults);
    ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
    const int error = ::posix_spawn(&pid_, words[0].c_str(), &actions, &attributes, arguments.data(), environ);
    ::posix_spawnattr_destroy(&attributes);
    ::posix_spawn_file_actions_destroy(&actions);
    ::close(pipe[1]);
    if (error != 0) throw std::runtime_error("cannot start the rank program");
  }
  RankProcess(const RankProcess&) = delete;
  RankProcess& operator=(const RankProcess&) = delete;
  ~RankProcess() {
    if (!ended_) {
      signal(SIGKILL);
      wait();
    }
    ::close(output_);
  }

  void signal(int number) const { ::kill(pid_, number); }
  bool is_stopped() const {
    siginfo_t info{};
    return ::waitid(P_PID, static_cast<id_t>(pid_), &info, WSTOPPED | WNOHANG | WNOWAIT) == 0 && info.si_pid == pid_;
  }

  /// The exit code, or 128 + the signal that ended it.
  int wait() {
    std::array<char, 4096> buffer{};
    ssize_t count = 0;
    while ((count = ::read(output_, buffer.data(), buffer.size())) > 0)
      text_.append(buffer.data(), static_cast<size_t>(count));
    int status = 0;
    ::waitpid(pid_, &status, 0);
    ended_ = true;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  const std::string& text() const { return text_; }

 private:
  pid_t pid_ = -1;
  int output_ = -1;
  bool ended_ = false;
  std::string text_;
};

/// All ranks of a scenario; rank 0 takes over a listening socket, so that no port is raced for.
std::vector<std::unique_ptr<RankProcess>> start(const std::string& scenario, int size,
                                                milliseconds deadline = milliseconds(30'000)) {
  Listener listener;
  std::vector<std::unique_ptr<RankProcess>> ranks;
  for (int rank = 0; rank < size; ++rank) {
    ranks.push_back(std::make_unique<RankProcess>(scenario, rank, size, listener.port(), listener.fd(), deadline));
    // Only rank 0 inherits it: a copy in another rank would keep the port answering after rank 0 is gone.
    if (rank == 0) ::fcntl(listener.fd(), F_SETFD, FD_CLOEXEC);
  }
  return ranks;
}

constexpr milliseconds kShort{1500};

template <class Fn>
std::string error_of(Fn fn) {
  try {
    fn();
  } catch (const CommError& error) {
    return error.what();
  }
  return "no CommError";
}

class GlooGroup : public testing::TestWithParam<int> {};

TEST_P(GlooGroup, EveryOperationIsRightAndHasTheBitsOfTheLocalGroup) {
  char digest[32];
  run_ranks(GetParam(), [&](Communicator& group) {
    const uint64_t value = exercise(group);
    if (group.rank() == 0)
      std::snprintf(digest, sizeof digest, "digest %016llx\n", static_cast<unsigned long long>(value));
  });
  auto ranks = start("exercise", GetParam());
  for (auto& rank : ranks) {
    EXPECT_EQ(rank->wait(), 0) << rank->text();
    EXPECT_EQ(rank->text(), digest);
  }
}

INSTANTIATE_TEST_SUITE_P(Worlds, GlooGroup, testing::Values(1, 2, 3, 4));

TEST(GlooGroup, RanksMayBeThreadsOfOneProcess) {
  const int port = free_port();
  std::vector<std::thread> threads;
  std::vector<std::string> errors(2);
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&errors, rank, port] {
      try {
        auto group = connect_gloo({.rank = rank, .size = 2, .store_port = port, .host_store = rank == 0});
        exercise(*group);
      } catch (const std::exception& error) {
        errors[static_cast<size_t>(rank)] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(errors, testing::Each(testing::IsEmpty()));
}

TEST(GlooGroup, AKilledPeerEndsEveryRankAtOnce) {
  auto ranks = start("killed", 4, milliseconds(20'000));
  EXPECT_EQ(ranks[1]->wait(), 128 + SIGKILL);
  const auto death = Clock::now();
  for (const int rank : {0, 2, 3}) {
    EXPECT_EQ(ranks[static_cast<size_t>(rank)]->wait(), 4);
    EXPECT_THAT(ranks[static_cast<size_t>(rank)]->text(),
                HasSubstr("could not receive gradients of layer 3 from rank 1 (4000 bytes, tag 1): rank 1 closed"));
  }
  EXPECT_LT(Clock::now() - death, std::chrono::seconds(10));
}

TEST(GlooGroup, SigpipeIsIgnoredOnceConnected) {
  auto ranks = start("sigpipe", 2);
  for (auto& rank : ranks) {
    EXPECT_EQ(rank->wait(), 0) << rank->text();
    EXPECT_EQ(rank->text(), "alive\n");
  }
}

TEST(GlooGroup, AStoppedPeerMeetsTheDeadlineAndDoesNotDieOfSigpipe) {
  auto ranks = start("stopped", 2, kShort);
  EXPECT_EQ(ranks[0]->wait(), 4);
  EXPECT_THAT(ranks[0]->text(),
              HasSubstr("rank 0: waited 1.5 s to receive gradients of layer 3 from rank 1 (4000 bytes, tag 1)"));
  EXPECT_TRUE(ranks[1]->is_stopped());
  ranks[1]->signal(SIGCONT);
  EXPECT_EQ(ranks[1]->wait(), 4) << ranks[1]->text();
  EXPECT_THAT(ranks[1]->text(), HasSubstr("send a late message to rank 0"));
}

TEST(GlooGroup, ASendToAStoppedPeerMeetsTheDeadline) {
  auto ranks = start("send_to_stopped", 2, kShort);
  EXPECT_EQ(ranks[0]->wait(), 4);
  EXPECT_THAT(ranks[0]->text(), HasSubstr("rank 0: waited 1.5 s to send weights of layer 2 to rank 1"));
}

TEST(GlooGroup, ASubgroupUsedFirstAfterADeathFails) {
  auto ranks = start("first_use_after_death", 3, milliseconds(5'000));
  EXPECT_EQ(ranks[1]->wait(), 128 + SIGKILL);
  const auto death = Clock::now();
  EXPECT_EQ(ranks[0]->wait(), 4);
  EXPECT_EQ(ranks[2]->wait(), 4);
  EXPECT_LT(Clock::now() - death, std::chrono::seconds(10));
  EXPECT_THAT(ranks[0]->text(), AllOf(HasSubstr("first use"), HasSubstr("rank 1")));
}

TEST(GlooGroup, PlansThatDifferAreFoundBeforeATransfer) {
  auto ranks = start("differ_in_plan", 3);
  for (auto& rank : ranks) {
    EXPECT_EQ(rank->wait(), 2) << rank->text();
    EXPECT_THAT(rank->text(), AllOf(HasSubstr("the ranks differ in the plan: ranks 0, 2 ("), HasSubstr("rank 1 (")));
  }
}

TEST(GlooGroup, RanksThatMakeDifferentCallsMeetTheDeadline) {
  auto ranks = start("differ_in_call", 2, kShort);
  for (auto& rank : ranks) EXPECT_EQ(rank->wait(), 4) << rank->text();
  EXPECT_THAT(ranks[0]->text(), HasSubstr("the norm from rank 1"));
  EXPECT_THAT(ranks[1]->text(), HasSubstr("saving a checkpoint"));
  EXPECT_THAT(ranks[0]->text() + ranks[1]->text(), HasSubstr("waited 1.5 s"));
}

TEST(GlooGroup, LengthsThatDifferMeetTheDeadlineAndEndNoProcess) {
  auto ranks = start("differ_in_length", 2, kShort);
  for (auto& rank : ranks) EXPECT_EQ(rank->wait(), 4) << rank->text();
  EXPECT_THAT(ranks[0]->text() + ranks[1]->text(), HasSubstr("waited 1.5 s"));
}

TEST(GlooGroup, OneFailureIsTheFailureOfEveryThread) {
  auto ranks = start("two_threads", 3, kShort);
  EXPECT_EQ(ranks[0]->wait(), 4);
  EXPECT_THAT(ranks[0]->text(), AllOf(HasSubstr("one failure"), HasSubstr("waited 1.5 s to receive a from rank 1")));
}

TEST(GlooGroup, ALostPeerEndsTheWaitsForOthers) {
  const auto begin = Clock::now();
  auto ranks = start("two_threads_killed", 3, milliseconds(20'000));
  EXPECT_EQ(ranks[0]->wait(), 4);
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(9));
  EXPECT_THAT(ranks[0]->text(), AllOf(HasSubstr("one failure"), HasSubstr("could not receive a from rank 1")));
}

TEST(ConnectGloo, ABusyPortIsNamedAtOnce) {
  Listener busy;
  const auto begin = Clock::now();
  const std::string error =
      error_of([&] { connect_gloo({.rank = 0, .size = 2, .store_port = busy.port(), .host_store = true}); });
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(5));
  EXPECT_THAT(error,
              AllOf(HasSubstr("port " + std::to_string(busy.port())), HasSubstr("in use"), HasSubstr("MASTER_PORT")));
}

TEST(ConnectGloo, AnAbsentMasterMeetsTheDeadline) {
  const int port = free_port();
  const auto begin = Clock::now();
  const std::string error =
      error_of([&] { connect_gloo({.rank = 1, .size = 2, .store_port = port, .deadline = kShort}); });
  const auto time = Clock::now() - begin;
  EXPECT_GE(time, kShort / 2);
  EXPECT_LT(time, kShort + milliseconds(1000));
  EXPECT_THAT(error,
              HasSubstr("rank 1 of 2: waited 1.5 s for the store of rank 0 at 127.0.0.1:" + std::to_string(port)));
}

TEST(ConnectGloo, AMasterThatComesLateIsFound) {
  const int port = free_port();
  RankProcess second("connect", 1, 2, port, -1, milliseconds(20'000));
  std::this_thread::sleep_for(milliseconds(1200));
  RankProcess first("connect", 0, 2, port, -1, milliseconds(20'000));
  EXPECT_EQ(first.wait(), 0) << first.text();
  EXPECT_EQ(second.wait(), 0) << second.text();
}

TEST(ConnectGloo, AStalledMasterMeetsTheDeadline) {
  const int port = free_port();
  RankProcess first("connect", 0, 3, port, -1, milliseconds(30'000));
  while (!answers(port)) std::this_thread::sleep_for(milliseconds(10));
  RankProcess second("connect", 1, 3, port, -1, milliseconds(3'000));
  // The second is stalled in the middle of its questions, the third before the first.
  std::this_thread::sleep_for(milliseconds(1'000));
  first.signal(SIGSTOP);
  const auto begin = Clock::now();
  RankProcess third("connect", 2, 3, port, -1, kShort);
  EXPECT_EQ(third.wait(), 4) << third.text();
  EXPECT_THAT(third.text(), HasSubstr("store of rank 0 at 127.0.0.1"));
  EXPECT_EQ(second.wait(), 4) << second.text();
  EXPECT_THAT(second.text(), HasSubstr("rank 0"));
  EXPECT_LT(Clock::now() - begin, milliseconds(6'000));
}

TEST(ConnectGloo, MissingRanksAreNamed) {
  const int port = free_port();
  // Rank 0 has the store: it must outlast rank 2 on a loaded host, where processes start seconds apart.
  RankProcess first("connect", 0, 4, port, -1, milliseconds(6'000));
  RankProcess third("connect", 2, 4, port, -1, milliseconds(1'800));
  EXPECT_EQ(first.wait(), 4);
  EXPECT_EQ(third.wait(), 4);
  EXPECT_THAT(first.text(),
              AllOf(HasSubstr("rank 0 of 4: waited 6 s"), HasSubstr("for ranks 1, 3, which did not join")));
  EXPECT_THAT(third.text(), AllOf(HasSubstr("rank 2 of 4: waited 1.8 s"), HasSubstr("for ranks 1, 3")));
}

TEST(ConnectGloo, ARankThatComesTwiceIsRefused) {
  const int port = free_port();
  RankProcess first("connect", 0, 3, port, -1, milliseconds(4'000));
  RankProcess second("connect", 1, 3, port, -1, milliseconds(4'000));
  RankProcess twin("connect", 1, 3, port, -1, milliseconds(4'000));
  EXPECT_EQ(second.wait(), 4);
  EXPECT_EQ(twin.wait(), 4);
  EXPECT_THAT(second.text() + twin.text(), HasSubstr("another process has joined as rank 1"));
}

TEST(ConnectGloo, WorldSizesThatDifferAreRefused) {
  const int port = free_port();
  RankProcess first("connect", 0, 3, port, -1, milliseconds(3'000));
  RankProcess second("connect", 1, 2, port, -1, milliseconds(10'000));
  EXPECT_EQ(second.wait(), 4);
  EXPECT_THAT(second.text(), HasSubstr("rank 0 was started for 3 ranks and this one for 2"));
}

}  // namespace
}  // namespace lockstep::comm
