#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "lockstep/communicator.h"

namespace lockstep::comm {

struct LocalOptions {
  std::chrono::milliseconds deadline{30'000};
  std::chrono::microseconds max_delay{0};  ///< Above 0: each transfer and wait is first delayed by a random time.
  uint64_t seed = 0;                       ///< Of the delays.
};

/// The communicators of `size` ranks in one process, rank r at index r, for one thread each.  Messages are copied in
/// memory when both sides have posted them.  A rank whose communicators are all gone, or that failed, has left:
/// others' waits for it fail at once, as over a network.
std::vector<std::unique_ptr<Communicator>> local_group(int size, const LocalOptions& options = {});

/// Runs fn as `world` ranks, each on a thread of its own, and returns when all have returned.  Rethrows the exception
/// that was thrown first.
void run_ranks(int world, const std::function<void(Communicator&)>& fn, const LocalOptions& options = {});

}  // namespace lockstep::comm
