#pragma once

#include <string>

namespace lockstep::launch {

/// How a process ended.
struct ExitStatus {
  int code = 0;    ///< Its exit code; 0 where a signal killed it.
  int signal = 0;  ///< The signal that killed it; 0 where it exited.

  [[nodiscard]] bool failed() const { return code != 0 || signal != 0; }
  /// What a shell would show: the exit code, or 128 + the signal.
  [[nodiscard]] int shell_code() const { return signal != 0 ? 128 + signal : code; }
  bool operator==(const ExitStatus&) const = default;
};

/// "SIGKILL"; "signal 70" for one without a name.
std::string signal_name(int signal);

/// "exited with code 3", "was killed by signal 9 (SIGKILL), often the out-of-memory killer".
std::string describe(const ExitStatus& status);

}  // namespace lockstep::launch
