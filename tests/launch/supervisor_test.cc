#include "launch/supervisor.h"

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <thread>

#include "lockstep/error.h"
#include "process_probe.h"

namespace lockstep::launch {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;
using testing::ThrowsMessage;

using Clock = std::chrono::steady_clock;

class SupervisorTest : public testing::Test {
 protected:
  SupervisorTest() { std::filesystem::create_directories(folder_); }
  ~SupervisorTest() override { std::filesystem::remove_all(folder_); }

  /// One rank per script, in /bin/sh; $OUT is this test's folder.
  [[nodiscard]] SupervisorOptions job(const std::vector<std::string>& scripts) {
    SupervisorOptions options;
    options.grace = milliseconds(500);
    options.log = Log([this](LogLevel, std::string_view text) { log_.emplace_back(text); }, LogLevel::info);
    for (const std::string& script : scripts)
      options.ranks.push_back({.argv = {"/bin/sh", "-c", script}, .environment = {{"OUT", folder_}}});
    return options;
  }
  /// A launcher as a process of its own, so that signals and kills can reach it.  It exits as the job says.
  static pid_t launch(const SupervisorOptions& options) {
    const pid_t pid = ::fork();
    if (pid == 0) ::_exit(supervise(options).exit_code);
    return pid;
  }
  static int exit_code_of(pid_t launcher) {
    int status = 0;
    ::waitpid(launcher, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  [[nodiscard]] std::string read(const std::string& name) const {
    std::ostringstream text;
    text << std::ifstream(folder_ + "/" + name).rdbuf();
    return text.str();
  }
  /// The process ids that scripts wrote to $OUT/name, once there are `count`.
  [[nodiscard]] std::vector<pid_t> pids(const std::string& name, size_t count) const {
    std::vector<pid_t> result;
    eventually([&] {
      result.clear();
      std::istringstream text(read(name));
      for (pid_t pid; text >> pid;) result.push_back(pid);
      return result.size() == count;
    });
    EXPECT_EQ(result.size(), count);
    return result;
  }
  static bool all_die(const std::vector<pid_t>& processes, milliseconds within = seconds(10)) {
    return eventually([&] { return std::ranges::none_of(processes, alive); }, within);
  }

  const std::string folder_ = testing::TempDir() + "supervisor_test_" + std::to_string(::getpid());
  std::vector<std::string> log_;
};

TEST_F(SupervisorTest, RanksKnowTheirPlace) {
  const std::string script =
      "echo $RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $LOCAL_SIZE $MASTER_ADDR $MASTER_PORT $OMP_NUM_THREADS "
      "> $OUT/$RANK";
  SupervisorOptions options = job({script, script});
  options.threads_per_rank = 3;
  const JobResult result = supervise(options);
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_FALSE(result.first_failure);
  const std::string port = std::to_string(result.port);
  EXPECT_EQ(read("0"), "0 2 0 2 2 127.0.0.1 " + port + " 3\n");
  EXPECT_EQ(read("1"), "1 2 1 2 2 127.0.0.1 " + port + " 3\n");
  EXPECT_THAT(log_, ElementsAre(AllOf(HasSubstr("2 ranks"), HasSubstr("127.0.0.1:" + port))));
}

TEST_F(SupervisorTest, RanksAreDirectChildrenInGroupsOfTheirOwn) {
  EXPECT_EQ(supervise(job({"echo $PPID $(ps -o pgid= -p $$) $$ > $OUT/ids"})).exit_code, 0);
  std::istringstream text(read("ids"));
  pid_t parent = 0, group = 0, self = 0;
  text >> parent >> group >> self;
  EXPECT_EQ(parent, ::getpid());
  EXPECT_EQ(group, self);
}

TEST_F(SupervisorTest, FirstFailureIsNamedAndStopsTheOthersAtOnce) {
  const auto start = Clock::now();
  const JobResult result = supervise(job({"sleep 100", "exit 3", "sleep 100"}));
  EXPECT_LT(Clock::now() - start, seconds(50));
  EXPECT_EQ(result.exit_code, 3);
  ASSERT_TRUE(result.first_failure);
  EXPECT_EQ(result.first_failure->rank, 1);
  EXPECT_EQ(result.first_failure->status, (ExitStatus{.code = 3}));
  EXPECT_THAT(result.first_failure->message, StartsWith("rank 1 exited with code 3; host "));
  EXPECT_THAT(log_.back(), HasSubstr("rank 1 exited with code 3"));
}

TEST_F(SupervisorTest, ASignalIsNamedWithItsLikelyCause) {
  for (const auto& [signal, name] : std::map<int, std::string>{{9, "SIGKILL"}, {7, "SIGBUS"}, {11, "SIGSEGV"}}) {
    const JobResult result = supervise(job({"sleep 100", "sleep 100", "kill -" + std::to_string(signal) + " $$"}));
    EXPECT_EQ(result.exit_code, 128 + signal);
    EXPECT_THAT(result.first_failure->message,
                StartsWith("rank 2 was killed by signal " + std::to_string(signal) + " (" + name + "), "));
  }
}

TEST_F(SupervisorTest, TheCauseBehindALostPeerIsNamed) {
  // Rank 0 sees its peer's connection close a moment before the peer is gone.
  SupervisorOptions options = job({"exit 4", "sleep 0.1; kill -9 $$"});
  options.settle = seconds(20);
  const JobResult result = supervise(options);
  EXPECT_EQ(result.first_failure->rank, 1);
  EXPECT_EQ(result.exit_code, 137);
  EXPECT_EQ(supervise(job({"exit 4", "sleep 100"})).exit_code, 4);
}

TEST_F(SupervisorTest, ARankThatIgnoresTermIsKilledAfterTheGrace) {
  const auto start = Clock::now();
  const JobResult result = supervise(job({"trap '' TERM; echo $$ > $OUT/pid; while :; do sleep 1; done",
                                          "while [ ! -s $OUT/pid ]; do sleep 0.01; done; exit 5"}));
  EXPECT_EQ(result.exit_code, 5);
  EXPECT_GE(Clock::now() - start, milliseconds(500));
  EXPECT_LT(Clock::now() - start, seconds(50));
  EXPECT_FALSE(alive(pids("pid", 1).front()));
}

TEST_F(SupervisorTest, RanksHaveTheGraceToSave) {
  SupervisorOptions options =
      job({"trap 'sleep 0.2; echo yes > $OUT/saved; exit 0' TERM; : > $OUT/ready; "
           "while :; do sleep 0.01; done",
           "while [ ! -e $OUT/ready ]; do sleep 0.01; done; exit 1"});
  options.grace = seconds(5);
  EXPECT_EQ(supervise(options).exit_code, 1);
  EXPECT_EQ(read("saved"), "yes\n");
}

TEST_F(SupervisorTest, NoGrandchildOutlivesItsRank) {
  const JobResult result =
      supervise(job({"sleep 100 & echo $! >> $OUT/pids; exit 0",
                     "sh -c 'trap \"\" TERM; sleep 100 & echo $! >> $OUT/pids; wait' & sleep 0.2"}));
  EXPECT_EQ(result.exit_code, 0);
  for (const pid_t pid : pids("pids", 2)) EXPECT_FALSE(alive(pid));
}

TEST_F(SupervisorTest, NothingOutlivesAKilledLauncher) {
  const std::string script = "trap '' TERM; sleep 100 & echo $$ $! >> $OUT/pids; wait";
  const pid_t launcher = launch(job({script, script, script, script}));
  const auto processes = pids("pids", 8);
  ::kill(launcher, SIGKILL);
  EXPECT_EQ(exit_code_of(launcher), -1);
  EXPECT_TRUE(all_die(processes));
}

TEST_F(SupervisorTest, StopSignalsArePassedOnAndDecideTheExitCode) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    std::filesystem::remove(folder_ + "/pids");
    const std::string script = "sleep 100 & echo $$ $! >> $OUT/pids; wait";
    const pid_t launcher = launch(job({script, script}));
    const auto processes = pids("pids", 4);
    ::kill(launcher, signal);
    EXPECT_EQ(exit_code_of(launcher), 128 + signal);
    EXPECT_TRUE(all_die(processes, milliseconds(100)));
  }
}

TEST_F(SupervisorTest, ASecondStopSignalKillsAtOnce) {
  SupervisorOptions options = job({"trap '' INT TERM; echo $$ > $OUT/pid; while :; do sleep 0.05; done"});
  options.grace = seconds(100);
  const pid_t launcher = launch(options);
  const auto processes = pids("pid", 1);
  ::kill(launcher, SIGINT);
  std::this_thread::sleep_for(milliseconds(100));
  EXPECT_TRUE(alive(processes.front()));
  // Two that come before the first was taken are one; so more than one may be needed.
  int status = 0;
  EXPECT_TRUE(eventually([&] {
    ::kill(launcher, SIGINT);
    return ::waitpid(launcher, &status, WNOHANG) == launcher;
  }));
  // One more than needed may reach the launcher itself, after the job.
  EXPECT_EQ(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), 130);
  EXPECT_FALSE(alive(processes.front()));
}

TEST_F(SupervisorTest, UserSignalsArePassedOnAndTheJobGoesOn) {
  const std::string script =
      "trap 'echo got >> $OUT/$RANK; exit 0' USR1; echo $$ >> $OUT/pids; while :; do sleep 0.01; done";
  const pid_t launcher = launch(job({script, script}));
  (void)pids("pids", 2);
  ::kill(launcher, SIGUSR1);
  EXPECT_EQ(exit_code_of(launcher), 0);
  EXPECT_EQ(read("0") + read("1"), "got\ngot\n");
}

TEST_F(SupervisorTest, AnIgnoredHangupStaysIgnored) {
  ::signal(SIGHUP, SIG_IGN);  // As nohup does.
  const pid_t launcher = launch(job({"echo $$ > $OUT/pid; sleep 0.3; exit 7"}));
  ::signal(SIGHUP, SIG_DFL);
  const auto processes = pids("pid", 1);
  ::kill(launcher, SIGHUP);
  ::kill(processes.front(), SIGHUP);
  EXPECT_EQ(exit_code_of(launcher), 7);
}

TEST_F(SupervisorTest, TwoJobsAtOnceHaveTwoPorts) {
  const std::string script =
      "echo $MASTER_PORT >> $OUT/ports; while [ $(wc -l < $OUT/ports) -lt 4 ]; do sleep 0.01; done";
  const pid_t first = launch(job({script, script}));
  const pid_t second = launch(job({script, script}));
  EXPECT_EQ(exit_code_of(first), 0);
  EXPECT_EQ(exit_code_of(second), 0);
  std::istringstream text(read("ports"));
  std::map<int, int> uses;
  for (int port; text >> port;) ++uses[port];
  EXPECT_EQ(uses.size(), 2u);
  for (const auto& [port, count] : uses) EXPECT_EQ(count, 2);
}

TEST_F(SupervisorTest, AProgramThatCannotRunIsNamedAndNoRankIsLeft) {
  SupervisorOptions options = job({"echo $$ > $OUT/pid; sleep 100"});
  options.ranks.push_back({.argv = {"/no/such/program"}});
  EXPECT_THAT(
      [&] { (void)supervise(options); },
      ThrowsMessage<ConfigError>(AllOf(HasSubstr("/no/such/program: cannot be run"), HasSubstr("No such file"))));
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_THROW((void)supervise(SupervisorOptions{}), ConfigError);
}

TEST_F(SupervisorTest, StandardInputIsEmptyAndOutputPassesThrough) {
  testing::internal::CaptureStdout();
  EXPECT_EQ(supervise(job({"cat; echo plain"})).exit_code, 0);
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "plain\n");
}

TEST_F(SupervisorTest, SignalHandlingIsGivenBack) {
  sigset_t before;
  sigset_t after;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &before);
  EXPECT_EQ(supervise(job({"exit 0"})).exit_code, 0);
  ::pthread_sigmask(SIG_SETMASK, nullptr, &after);
  for (const int signal : {SIGCHLD, SIGINT, SIGTERM, SIGUSR1})
    EXPECT_EQ(sigismember(&before, signal), sigismember(&after, signal));
}

TEST_F(SupervisorTest, ThreadsPerRankShareTheProcessors) {
  EXPECT_GE(default_threads_per_rank(1), 1);
  EXPECT_EQ(default_threads_per_rank(100'000), 1);
}

}  // namespace
}  // namespace lockstep::launch
