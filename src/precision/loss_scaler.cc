#include "precision/loss_scaler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "base/check.h"
#include "lockstep/error.h"

namespace lockstep::precision {

LossScaler::LossScaler(const LossScalerOptions& options)
    : options_(options), state_{.scale = options.scale, .tolerance = options.hysteresis} {
  std::vector<std::string> problems;
  const auto require = [&](bool holds, std::string_view key, std::string_view expected) {
    if (!holds) problems.push_back(fmt::format("fp16.{}: expected {}; change it", key, expected));
  };
  require(std::isfinite(options.scale) && options.scale > 0, options.dynamic ? "initial_scale_power" : "loss_scale",
          "a finite scale above 0");
  if (options.dynamic) {
    require(options.window > 0, "loss_scale_window", "a whole number above 0");
    require(options.hysteresis >= 1, "hysteresis", "a whole number of 1 or more");
    require(options.min_scale > 0, "min_loss_scale", "a number above 0");
    require(options.min_scale <= options.scale, "min_loss_scale",
            fmt::format("at most the first scale, {} (2 to the power of initial_scale_power)", options.scale));
  }
  if (!problems.empty()) throw ConfigError(std::move(problems));
}

void LossScaler::applied() {
  if (!options_.dynamic) return;
  if (options_.consecutive_hysteresis) state_.tolerance = options_.hysteresis;
  const int64_t clean = state_.steps - state_.last_overflow - 1;
  if (clean > 0 && clean % options_.window == 0) {
    state_.tolerance = options_.hysteresis;
    state_.scale = std::min(state_.scale * 2, std::max(options_.max_scale, state_.scale));
  }
  ++state_.steps;
}

std::string LossScaler::overflowed(const NonFinite& found) {
  LOCKSTEP_CHECK(options_.dynamic);
  const double before = state_.scale;
  if (state_.tolerance > 1) {
    --state_.tolerance;
  } else {
    if (state_.scale <= options_.min_scale) {
      throw DivergedError(
          fmt::format("{}: overflow at the smallest loss scale, {} (min_loss_scale), with the tolerance spent; "
                      "training diverged: lower the learning rate, use bf16, or lower the floor",
                      describe(found), options_.min_scale));
    }
    state_.scale = std::max(state_.scale / 2, options_.min_scale);
  }
  state_.last_overflow = state_.steps++;
  return fmt::format("{}; the step is skipped on all ranks, the loss scale {} {}", describe(found),
                     state_.scale == before ? "stays" : "falls to", state_.scale);
}

void LossScaler::restore(const LossScalerState& state) {
  if (!options_.dynamic) return;
  state_ = state;
  state_.scale = std::max(state_.scale, options_.min_scale);
  state_.tolerance = std::clamp<int64_t>(state_.tolerance, 1, options_.hysteresis);
}

}  // namespace lockstep::precision
