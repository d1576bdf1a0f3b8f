#pragma once

#include <sys/types.h>

namespace lockstep::launch {

/// A tiny process that outlives its maker by moments.  It knows the process groups of a job; when its maker dies
/// without having dismissed it, by SIGKILL for example, it kills them, so that what the ranks started goes with them.
/// It is no child of its maker, has a session of its own and holds none of its files.
class OrphanGuard {
 public:
  /// Throws IoError where the host allows no more processes.
  OrphanGuard();
  /// Dismisses the guard and returns when it has gone; the groups it still knows live on.
  ~OrphanGuard();
  OrphanGuard(const OrphanGuard&) = delete;
  OrphanGuard& operator=(const OrphanGuard&) = delete;

  /// Async-signal-safe, for a child that names itself before it becomes its program.
  void add(pid_t group) { tell(group); }
  void remove(pid_t group) { tell(-group); }

 private:
  void tell(pid_t message);

  int socket_ = -1;
};

}  // namespace lockstep::launch
