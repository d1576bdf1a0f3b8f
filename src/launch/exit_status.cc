#include "launch/exit_status.h"

#include <fmt/format.h>

#include <csignal>
#include <cstring>

namespace lockstep::launch {
namespace {

/// What is most often behind a signal, with a comma in front; empty where nothing can be said.
const char* likely_cause(int signal) {
  switch (signal) {
    case SIGKILL:
      return ", often the out-of-memory killer";
    case SIGBUS:
      return ", often a full /dev/shm or a file that shrank while it was mapped";
    case SIGSEGV:
      return ", a crash in native code";
    case SIGABRT:
      return ", often an exception that nobody caught or a failed assertion";
    case SIGILL:
      return ", often code built for another processor";
    case SIGFPE:
      return ", often an integer division by zero";
    case SIGPIPE:
      return ", writing where nobody reads any more";
    case SIGXCPU:
      return ", a limit on processor time (ulimit -t)";
    case SIGXFSZ:
      return ", a limit on file size (ulimit -f)";
    case SIGTERM:
      return ", somebody asked it to stop";
    default:
      return "";
  }
}

}  // namespace

std::string signal_name(int signal) {
  const char* name = ::sigabbrev_np(signal);
  return name != nullptr ? fmt::format("SIG{}", name) : fmt::format("signal {}", signal);
}

std::string describe(const ExitStatus& status) {
  if (status.signal != 0)
    return fmt::format("was killed by signal {} ({}){}", status.signal, signal_name(status.signal),
                       likely_cause(status.signal));
  // A shell in between reports a signal as 128 + its number.
  const char* name = status.code > 128 ? ::sigabbrev_np(status.code - 128) : nullptr;
  if (name != nullptr)
    return fmt::format("exited with code {} (128 + SIG{}{})", status.code, name, likely_cause(status.code - 128));
  return fmt::format("exited with code {}", status.code);
}

}  // namespace lockstep::launch
