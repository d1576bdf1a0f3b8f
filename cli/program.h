#pragma once

#include <string>
#include <vector>

namespace lockstep::cli {

/// Runs the program `lockstep` with its arguments (without the program's name) in this process; its exit code.
int run_program(const std::vector<std::string>& arguments);

}  // namespace lockstep::cli
