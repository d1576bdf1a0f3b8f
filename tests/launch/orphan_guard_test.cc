#include "launch/orphan_guard.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "process_probe.h"

namespace lockstep::launch {
namespace {

/// A process that sleeps in a group of its own.
pid_t start_sleeper() {
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::setpgid(0, 0);
    while (true) ::pause();
  }
  ::setpgid(pid, pid);
  return pid;
}

TEST(OrphanGuardTest, KillsTheGroupsItKnowsWhenItsMakerDies) {
  const pid_t known = start_sleeper();
  const pid_t removed = start_sleeper();
  const pid_t maker = ::fork();
  if (maker == 0) {
    OrphanGuard guard;
    guard.add(known);
    guard.add(removed);
    guard.remove(removed);
    ::raise(SIGKILL);
  }
  ::waitpid(maker, nullptr, 0);
  EXPECT_TRUE(eventually([&] { return !alive(known); }));
  EXPECT_TRUE(alive(removed));
  ::kill(removed, SIGKILL);
  ::waitpid(known, nullptr, 0);
  ::waitpid(removed, nullptr, 0);
}

TEST(OrphanGuardTest, IsDismissedWithoutHarmAndIsNoChild) {
  const pid_t sleeper = start_sleeper();
  {
    OrphanGuard guard;
    guard.add(sleeper);
  }
  EXPECT_TRUE(alive(sleeper));
  ::kill(sleeper, SIGKILL);
  ::waitpid(sleeper, nullptr, 0);
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);
}

}  // namespace
}  // namespace lockstep::launch
