#pragma once

#include "launch/rank_environment.h"
#include "lockstep/launch.h"

namespace lockstep::launch {

/// Of every wait for another rank, where nobody said otherwise.
inline constexpr std::chrono::seconds kDefaultDeadline{1800};

/// connect() for a place that is already known.
World connect_as(const RankEnvironment& environment, const ConnectOptions& options);

}  // namespace lockstep::launch
