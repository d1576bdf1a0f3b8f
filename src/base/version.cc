// Compiled on its own, so that a new version rebuilds one file.
#include "lockstep/version.h"

namespace lockstep {

const char* version() { return LOCKSTEP_VERSION; }
const char* built_with_torch() { return LOCKSTEP_TORCH_VERSION; }
const char* build_description() { return LOCKSTEP_BUILD_DESCRIPTION; }

}  // namespace lockstep
