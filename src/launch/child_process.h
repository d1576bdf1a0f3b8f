#pragma once

#include <sys/types.h>

#include <csignal>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::launch {

class OrphanGuard;

using Environment = std::vector<std::pair<std::string, std::string>>;

struct ChildOptions {
  std::vector<std::string> argv{};  ///< argv[0] is looked up in PATH where it has no slash.
  Environment environment{};        ///< Added to this process's own; later entries win.
  sigset_t signal_mask{};           ///< What the child starts with.
  OrphanGuard* guard = nullptr;     ///< Told of the group before the program runs; borrowed for the call.
};

/// Starts a direct child in a process group of its own, with /dev/null as standard input (a background group that
/// reads its terminal would be stopped) and this process's standard output and error.  The kernel kills it when the
/// calling thread ends, however that happens.  Returns its process id, which is also the group's.
/// Throws ConfigError where the program cannot be run, IoError where the host allows no more processes.
pid_t start_child(const ChildOptions& options);

}  // namespace lockstep::launch
