#pragma once

#include <functional>

#include "lockstep/communicator.h"

namespace lockstep::checkpoint {

/// Runs `part` on this rank, then tells all ranks how it went.  Where it failed on one, every rank throws the lowest
/// such rank's error with its number in front, so that none goes on alone and none waits for one that gave up.
/// Keeps the types IoError, CheckpointError and ConfigError; any other error becomes a CheckpointError, and a CommError
/// passes at once.  Collective; blocks.
void run_together(Communicator& group, const std::function<void()>& part);

}  // namespace lockstep::checkpoint
