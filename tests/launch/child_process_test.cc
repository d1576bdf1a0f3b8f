#include "launch/child_process.h"

#include <gmock/gmock.h>
#include <sys/wait.h>

#include "lockstep/error.h"

namespace lockstep::launch {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

int exit_code_of(const ChildOptions& options) {
  int status = 0;
  ::waitpid(start_child(options), &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(ChildProcessTest, IsFoundInThePathAndHasTheAdditionsToTheEnvironment) {
  EXPECT_EQ(exit_code_of({.argv = {"sh", "-c", "exit $CODE"}, .environment = {{"CODE", "3"}, {"CODE", "5"}}}), 5);
  EXPECT_EQ(exit_code_of({.argv = {"sh", "-c", "test -n \"$PATH\""}}), 0);
}

TEST(ChildProcessTest, ArgumentsArriveAsTheyAre) {
  EXPECT_EQ(exit_code_of({.argv = {"sh", "-c", "test \"$1\" = 'a  b' -a -z \"$2\" -a $# = 2", "sh", "a  b", ""}}), 0);
}

TEST(ChildProcessTest, AProgramThatCannotRunIsAnErrorOfTheCaller) {
  EXPECT_THAT(
      [] { (void)start_child({.argv = {"no-such-program"}}); },
      ThrowsMessage<ConfigError>(AllOf(HasSubstr("no-such-program: cannot be run"), HasSubstr("No such file"))));
  EXPECT_THAT([] { (void)start_child({.argv = {"/etc/passwd"}}); },
              ThrowsMessage<ConfigError>(HasSubstr("Permission denied")));
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);
}

}  // namespace
}  // namespace lockstep::launch
