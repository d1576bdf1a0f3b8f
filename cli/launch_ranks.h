#pragma once

#include <string>
#include <vector>

namespace lockstep::cli {

/// Starts this program `ranks` times on this host with `arguments` and waits for all.
/// Returns the first failing rank's exit code, or 0.
int launch_ranks(int ranks, const std::vector<std::string>& arguments);

}  // namespace lockstep::cli
