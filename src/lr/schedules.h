#pragma once

#include <memory>

#include "lr/table.h"

namespace lockstep::lr {

/// One maker per type.  Requires: the options are in range.
std::unique_ptr<Schedule> schedule_of(const ConstantOptions& options);
std::unique_ptr<Schedule> schedule_of(const WarmupLrOptions& options);
std::unique_ptr<Schedule> schedule_of(const WarmupDecayLrOptions& options);
std::unique_ptr<Schedule> schedule_of(const WarmupCosineLrOptions& options);
std::unique_ptr<Schedule> schedule_of(const LrRangeTestOptions& options);
std::unique_ptr<Schedule> schedule_of(const OneCycleOptions& options);

}  // namespace lockstep::lr
