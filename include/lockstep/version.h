#pragma once

#include "lockstep/export.h"

namespace LOCKSTEP_API lockstep {

/// This library's version, "0.1.0".
const char* version();

/// The LibTorch it was built against, "2.11.0".
const char* built_with_torch();

/// Compiler, build type and sanitizers, in one line.
const char* build_description();

}  // namespace lockstep
