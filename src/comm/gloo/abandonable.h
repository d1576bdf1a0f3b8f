#pragma once

#include <chrono>
#include <functional>

namespace lockstep::comm {

/// Runs `body` on a thread of its own for at most `limit`.  True: it returned; what it threw is rethrown here.  False:
/// it is still running and is left behind, so `body` must own everything it touches.  Blocks.
bool run_abandonable(std::chrono::milliseconds limit, std::function<void()> body);

}  // namespace lockstep::comm
