#include "precision/non_finite_policy.h"

#include <fmt/format.h>

#include "base/check.h"
#include "lockstep/error.h"

namespace lockstep::precision {

std::string describe(const NonFinite& found) {
  const std::string what = found.tensor.empty() ? "loss or gradients" : found.tensor;
  const std::string where = found.rank < 0 ? "" : fmt::format(" on rank {}", found.rank);
  return fmt::format("step {}: infinity or NaN in {}{}", found.step, what, where);
}

NonFinitePolicy::NonFinitePolicy(int64_t max_skipped_steps) : max_skipped_steps_(max_skipped_steps) {
  LOCKSTEP_CHECK(max_skipped_steps >= 0);
}

std::string NonFinitePolicy::skipped(const NonFinite& found) {
  ++skipped_in_a_row_;
  if (max_skipped_steps_ > 0 && skipped_in_a_row_ >= max_skipped_steps_) {
    throw DivergedError(
        fmt::format("{}; {} steps in a row were skipped (lockstep.max_skipped_steps): training diverged; lower the "
                    "learning rate, set gradient_clipping, or go back to an earlier checkpoint",
                    describe(found), skipped_in_a_row_));
  }
  return fmt::format("{}; the step is skipped on all ranks ({} in a row)", describe(found), skipped_in_a_row_);
}

}  // namespace lockstep::precision
