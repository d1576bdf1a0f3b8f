#pragma once

#include <cstdint>
#include <string_view>

#include "lockstep/communicator.h"

namespace lockstep::comm {

/// Compares a hash among all ranks of the group, before transfers that rely on it.  Throws ConfigError on every rank
/// if they differ, naming the ranks that have each value; the communicator stays usable.  `what` completes
/// "the ranks differ in ...", such as "the plan (model, config and world size)".  Blocks.
void verify_agreement(Communicator& group, uint64_t hash, std::string_view what);

}  // namespace lockstep::comm
