#pragma once

#include "plan/plan.h"

namespace lockstep::plan {

/// From a plan whose layouts, buckets and gathers are made.
MemoryPrediction predict_memory(const Plan& plan);
/// Per rank and step.
int64_t predict_sent_bytes(const Plan& plan);

}  // namespace lockstep::plan
