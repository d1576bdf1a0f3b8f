#include "launch/child_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>

#include "base/check.h"
#include "launch/orphan_guard.h"
#include "lockstep/error.h"

namespace lockstep::launch {
namespace {

std::vector<std::string> merged_environment(const Environment& additions) {
  std::map<std::string, std::string> values;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const size_t equals = text.find('=');
    if (equals != std::string::npos) values[text.substr(0, equals)] = text.substr(equals + 1);
  }
  for (const auto& [name, value] : additions) values[name] = value;
  std::vector<std::string> entries;
  for (const auto& [name, value] : values) entries.push_back(name + "=" + value);
  return entries;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (std::string& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

/// Between fork and exec: nothing that takes a lock or memory.  Returns only where the program could not be run.
void become(char* const* argv, char* const* environment, const ChildOptions& options, pid_t parent) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(128 + SIGKILL);  // It died before prctl could take effect.
  if (options.guard != nullptr) options.guard->add(::getpid());
  ::signal(SIGPIPE, SIG_DFL);  // Ignored by this library, and inherited by what it starts.
  ::sigprocmask(SIG_SETMASK, &options.signal_mask, nullptr);
  const int null = ::open("/dev/null", O_RDONLY);
  if (null > 0) {
    ::dup2(null, 0);
    ::close(null);
  }
  ::execvpe(argv[0], argv, environment);
}

}  // namespace

pid_t start_child(const ChildOptions& options) {
  LOCKSTEP_CHECK(!options.argv.empty());
  std::vector<std::string> arguments = options.argv;
  std::vector<std::string> entries = merged_environment(options.environment);
  const std::vector<char*> argv = pointers(arguments);
  const std::vector<char*> environment = pointers(entries);

  // The child's end closes by itself once exec has worked; until then it carries errno.
  int report[2];
  if (::pipe2(report, O_CLOEXEC) != 0) throw IoError(fmt::format("cannot make a pipe: {}", std::strerror(errno)));
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid == 0) {
    become(argv.data(), environment.data(), options, parent);
    const int error = errno;
    [[maybe_unused]] const ssize_t written = ::write(report[1], &error, sizeof error);
    ::_exit(127);
  }
  const int fork_error = errno;
  ::close(report[1]);
  int error = 0;
  ssize_t got = 0;
  while (pid > 0 && (got = ::read(report[0], &error, sizeof error)) < 0 && errno == EINTR) {
  }
  ::close(report[0]);
  if (pid < 0) throw IoError(fmt::format("cannot start a process: {}; see ulimit -u", std::strerror(fork_error)));
  if (got == sizeof error) {
    while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
    }
    if (options.guard != nullptr) options.guard->remove(pid);
    throw ConfigError(fmt::format("{}: cannot be run: {}", options.argv.front(), std::strerror(error)));
  }
  return pid;
}

}  // namespace lockstep::launch
