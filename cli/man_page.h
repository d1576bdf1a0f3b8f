#pragma once

#include <string>

#include "command_tree.h"

namespace lockstep::cli {

/// lockstep(1) in man's macros.
std::string man_page(const Command& program);

}  // namespace lockstep::cli
