#pragma once

#include <exception>
#include <functional>

namespace lockstep::cli {

// What the program returns; 128 + n where a signal n ended the run.
inline constexpr int kDone = 0;
inline constexpr int kOurFault = 1;
inline constexpr int kBadInput = 2;
inline constexpr int kInputOutput = 3;
inline constexpr int kCommunication = 4;
inline constexpr int kDiverged = 5;

/// Runs `command` and turns what it throws into an exit code and a message on standard error.  All ranks find the same
/// fault in a config or a command line, so there only rank 0 speaks.
int guarded(const std::function<int()>& command, int rank = 0);

}  // namespace lockstep::cli
