#include "launch/exit_status.h"

#include <gtest/gtest.h>

#include <csignal>

namespace lockstep::launch {
namespace {

TEST(ExitStatusTest, SaysHowAProcessEndedAndWhy) {
  EXPECT_EQ(describe({.code = 3}), "exited with code 3");
  EXPECT_EQ(describe({.code = 137}), "exited with code 137 (128 + SIGKILL, often the out-of-memory killer)");
  EXPECT_EQ(describe({.signal = SIGKILL}), "was killed by signal 9 (SIGKILL), often the out-of-memory killer");
  EXPECT_EQ(describe({.signal = SIGSEGV}), "was killed by signal 11 (SIGSEGV), a crash in native code");
  EXPECT_EQ(describe({.signal = SIGUSR1}), "was killed by signal 10 (SIGUSR1)");
  EXPECT_EQ(signal_name(70), "signal 70");
}

TEST(ExitStatusTest, ShellCode) {
  EXPECT_EQ(ExitStatus{}.shell_code(), 0);
  EXPECT_EQ((ExitStatus{.code = 3}).shell_code(), 3);
  EXPECT_EQ((ExitStatus{.signal = SIGKILL}).shell_code(), 137);
  EXPECT_FALSE(ExitStatus{}.failed());
  EXPECT_TRUE((ExitStatus{.signal = SIGTERM}).failed());
}

}  // namespace
}  // namespace lockstep::launch
