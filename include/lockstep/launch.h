#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>

#include "lockstep/communicator.h"
#include "lockstep/export.h"
#include "lockstep/log.h"

namespace LOCKSTEP_API lockstep {

/// All processes of a run, and this one's place among them.
struct World {
  std::shared_ptr<Communicator> communicator{};  ///< Shared by the engines of this process.
  int rank = 0;
  int size = 1;
  int local_rank = 0;  ///< Among the ranks on this host.
  int local_size = 1;
};

namespace launch {

struct ConnectOptions {
  /// Of every wait for another rank.  Absent: LOCKSTEP_TIMEOUT (seconds), else 1800 s.
  std::optional<std::chrono::milliseconds> deadline{};
  Log log{};  ///< Told who connected, how and with which deadline.
};

/// Joins the run that the environment describes: torchrun's and our launcher's variables (RANK, WORLD_SIZE,
/// MASTER_ADDR, MASTER_PORT, LOCAL_RANK), mpirun's or srun's.  With none of them: one rank alone, which needs no
/// network. Returns when all ranks have come.  Ignores SIGPIPE from then on, unless the program handles it. Throws
/// ConfigError naming the variables that are missing or wrong, CommError if ranks did not come in time.
World connect(const ConnectOptions& options = {});

/// Runs `body` as `size` ranks of this process, each on a thread of its own, and returns when all have returned.
/// Rethrows what was thrown first; the other ranks' waits for that rank fail at once.  Throws ConfigError for a size
/// below 1.
void run_threads(int size, const std::function<void(const World&)>& body);

}  // namespace launch
}  // namespace lockstep
