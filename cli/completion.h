#pragma once

#include <string>

#include "command_tree.h"

namespace lockstep::cli {

/// A script that a shell sources: completes sub-commands and options, and leaves values to the shell's file names.
std::string bash_completion(const Command& program);
std::string zsh_completion(const Command& program);

}  // namespace lockstep::cli
