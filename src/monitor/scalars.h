#pragma once

#include <string>
#include <vector>

#include "monitor/metrics.h"

namespace lockstep::monitor {

/// One measured value of a step under DeepSpeed's name for it, such as "Train/Samples/lr".
struct Scalar {
  std::string name{};
  double value = 0;  ///< Rounded to a float, save for the learning rate, the loss scale and bytes.
};

/// The values that monitors record of every step, and eval_loss where there is one.  They stand at record.samples.
std::vector<Scalar> scalars(const StepRecord& record);

/// The names of all of them, eval_loss included.
std::vector<std::string> scalar_names();

}  // namespace lockstep::monitor
