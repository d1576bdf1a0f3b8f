#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include "lr/schedule.h"

namespace lockstep::lr {

/// One value for every parameter group, or one per group.
using PerGroup = std::vector<double>;

enum class Warmup { log, linear };

/// Every group's own rate, always.
struct ConstantOptions {};

struct WarmupLrOptions {
  PerGroup min_lr{0.0};
  std::optional<PerGroup> max_lr{};  ///< Absent: each group's own rate.
  int64_t num_steps = 1000;
  Warmup type = Warmup::log;
};

struct WarmupDecayLrOptions {
  int64_t total_num_steps = 0;  ///< Required.
  PerGroup min_lr{0.0};
  PerGroup max_lr{0.001};
  int64_t num_steps = 1000;
  Warmup type = Warmup::log;
};

/// Multiplies each group's own rate.
struct WarmupCosineLrOptions {
  int64_t total_num_steps = 0;  ///< Required.
  double warmup_min_ratio = 0;
  double cos_min_ratio = 1e-4;
  int64_t num_steps = 1000;
  Warmup type = Warmup::log;
};

struct LrRangeTestOptions {
  PerGroup min_lr{1e-3};
  int64_t step_size = 2000;
  double step_rate = 1.0;
  bool staircase = false;
};

struct OneCycleOptions {
  PerGroup min_lr{};  ///< Required.
  PerGroup max_lr{};  ///< Required.
  double decay_lr_rate = 0;
  int64_t first_step_size = 2000;
  std::optional<int64_t> second_step_size{};  ///< Absent: first_step_size.
  int64_t first_stair_count = 0;
  std::optional<int64_t> second_stair_count{};  ///< Absent: first_stair_count.
  int64_t decay_step_size = 0;                  ///< 0: no decay.
  bool cycle_momentum = true;  ///< Cycles beta1 and forces beta2 to 0.99.  Only for optimizers with betas.
  double min_momentum = 0.8;
  double max_momentum = 0.9;
  double decay_momentum_rate = 0;
};

using ScheduleOptions = std::variant<ConstantOptions, WarmupLrOptions, WarmupDecayLrOptions, WarmupCosineLrOptions,
                                     LrRangeTestOptions, OneCycleOptions>;

/// Makes a schedule for group_count parameter groups.  Throws ConfigError listing every value out of range and every
/// list whose length is neither 1 nor group_count, by the config's key.
[[nodiscard]] std::unique_ptr<Schedule> make_schedule(const ScheduleOptions& options, int group_count = 1);

/// The options of a type by the config's name for it ("WarmupLR"), at their defaults.  Throws ConfigError listing the
/// legal names.
[[nodiscard]] ScheduleOptions default_options(std::string_view type);

/// The legal names: "WarmupLR", "WarmupDecayLR", ...
[[nodiscard]] std::span<const std::string_view> schedule_names();

}  // namespace lockstep::lr
