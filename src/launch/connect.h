#pragma once

#include "launch/rank_environment.h"
#include "lockstep/launch.h"

namespace lockstep::launch {

/// connect() for a place that is already known.
World connect_as(const RankEnvironment& environment, const ConnectOptions& options);

}  // namespace lockstep::launch
