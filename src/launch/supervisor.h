#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "launch/child_process.h"
#include "launch/exit_status.h"
#include "lockstep/log.h"

namespace lockstep::launch {

/// One rank's program.
struct ChildSpec {
  std::vector<std::string> argv{};
  Environment environment{};  ///< Wins over what the supervisor sets.
};

struct SupervisorOptions {
  std::vector<ChildSpec> ranks{};
  int port = 0;                           ///< MASTER_PORT; 0: any free one.
  int threads_per_rank = 0;               ///< OMP_NUM_THREADS; 0: as it is set, else default_threads_per_rank.
  std::chrono::milliseconds grace{3000};  ///< From a polite signal to SIGKILL, so that ranks can save.
  std::chrono::milliseconds settle{300};  ///< How long to look for the cause behind a mere communication error.
  Log log{};
};

struct RankFailure {
  int rank = 0;
  ExitStatus status{};
  std::string message{};  ///< "rank 2 was killed by signal 9 (SIGKILL), often the out-of-memory killer; host a, ...".
};

struct JobResult {
  int exit_code = 0;  ///< What the launcher must return.
  std::optional<RankFailure> first_failure{};
  int stopped_by = 0;  ///< The signal that asked the launcher to stop; 0: none.
  int port = 0;
};

/// max(1, processors this process may use / ranks).
int default_threads_per_rank(int ranks);

/// Runs a job's ranks on this host as direct children, each in a process group of its own, and returns when no process
/// of the job is left.  Blocks.
///
/// Every rank has RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, LOCAL_SIZE, MASTER_ADDR=127.0.0.1, MASTER_PORT and
/// OMP_NUM_THREADS; its output is this process's, unchanged.  When a rank fails, the others are asked to stop with
/// SIGTERM, all at once, and killed after the grace.  SIGINT, SIGTERM, SIGHUP and SIGQUIT that reach this process are
/// passed on with the same grace, a second one kills at once; SIGUSR1 and SIGUSR2 are passed on, and the job goes on.
/// Should this process itself be killed, nothing of the job outlives it.
///
/// Exit code: 128 + signal where the job was asked to stop by one; else the first failing rank's (128 + signal where
/// one killed it); else 0.  A rank that exits with 4 (a lost peer) is not the first where another one fails within
/// `settle`.  The failure is logged when it is seen.
///
/// Requires: no other thread of this process accepts the signals above.  The calling thread lives until it returns.
/// Throws ConfigError (a program that cannot be run, a port in use), IoError; no rank is then left.
JobResult supervise(const SupervisorOptions& options);

}  // namespace lockstep::launch
