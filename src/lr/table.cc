#include "lr/table.h"

#include <fmt/format.h>

#include <array>
#include <string>

#include "lockstep/error.h"
#include "lr/schedules.h"

namespace lockstep::lr {
namespace {

constexpr std::array<std::string_view, 5> kNames{"WarmupLR", "WarmupDecayLR", "WarmupCosineLR", "LRRangeTest",
                                                 "OneCycle"};

/// Collects what is wrong with a set of options.
class Problems {
 public:
  explicit Problems(int group_count) : group_count_(group_count) {}

  void require(bool holds, std::string_view key, std::string_view expected) {
    if (!holds) found_.push_back(fmt::format("scheduler.params.{}: expected {}; change it", key, expected));
  }
  void rates(const PerGroup& values, std::string_view key) {
    if (values.size() != 1 && values.size() != static_cast<size_t>(group_count_)) {
      found_.push_back(fmt::format(
          "scheduler.params.{}: {} values for {} parameter groups; give one number, or a list with one per group", key,
          values.size(), group_count_));
    }
    for (const double value : values) require(value >= 0, key, "rates of 0 or more");
  }
  void throw_if_any() {
    if (!found_.empty()) throw ConfigError(std::move(found_));
  }

 private:
  int group_count_;
  std::vector<std::string> found_;
};

void check(const ConstantOptions& /*options*/, Problems& /*problems*/) {}

void check(const WarmupLrOptions& options, Problems& problems) {
  problems.rates(options.min_lr, "warmup_min_lr");
  if (options.max_lr) problems.rates(*options.max_lr, "warmup_max_lr");
  problems.require(options.num_steps > 0, "warmup_num_steps", "a whole number above 0");
}

void check(const WarmupDecayLrOptions& options, Problems& problems) {
  problems.rates(options.min_lr, "warmup_min_lr");
  problems.rates(options.max_lr, "warmup_max_lr");
  problems.require(options.num_steps > 0, "warmup_num_steps", "a whole number above 0");
  problems.require(options.total_num_steps > 0, "total_num_steps", "a whole number above 0 (it has no default)");
}

void check(const WarmupCosineLrOptions& options, Problems& problems) {
  problems.require(options.num_steps > 0, "warmup_num_steps", "a whole number above 0");
  problems.require(options.total_num_steps > 0, "total_num_steps", "a whole number above 0 (it has no default)");
  problems.require(options.warmup_min_ratio >= 0 && options.warmup_min_ratio <= 1, "warmup_min_ratio",
                   "a number from 0 to 1");
  problems.require(options.cos_min_ratio >= 0 && options.cos_min_ratio <= 1, "cos_min_ratio", "a number from 0 to 1");
}

void check(const LrRangeTestOptions& options, Problems& problems) {
  problems.rates(options.min_lr, "lr_range_test_min_lr");
  problems.require(options.step_size > 0, "lr_range_test_step_size", "a whole number above 0");
  problems.require(options.step_rate >= 0, "lr_range_test_step_rate", "a number of 0 or more");
}

void check(const OneCycleOptions& options, Problems& problems) {
  problems.rates(options.min_lr, "cycle_min_lr");
  problems.rates(options.max_lr, "cycle_max_lr");
  problems.require(options.first_step_size > 0, "cycle_first_step_size", "a whole number above 0");
  problems.require(options.second_step_size.value_or(0) >= 0, "cycle_second_step_size", "a whole number of 0 or more");
  problems.require(options.first_stair_count >= 0, "cycle_first_stair_count", "a whole number of 0 or more");
  problems.require(options.second_stair_count.value_or(0) >= 0, "cycle_second_stair_count",
                   "a whole number of 0 or more");
  problems.require(options.decay_step_size >= 0, "decay_step_size", "a whole number of 0 or more");
  problems.require(options.decay_lr_rate >= 0, "decay_lr_rate", "a number of 0 or more");
  problems.require(options.decay_momentum_rate >= 0, "decay_mom_rate", "a number of 0 or more");
  problems.require(options.min_momentum >= 0 && options.min_momentum < 1, "cycle_min_mom",
                   "a number of 0 or more, below 1");
  problems.require(options.max_momentum >= 0 && options.max_momentum < 1, "cycle_max_mom",
                   "a number of 0 or more, below 1");
}

}  // namespace

std::unique_ptr<Schedule> make_schedule(const ScheduleOptions& options, int group_count) {
  Problems problems(group_count);
  std::visit([&](const auto& chosen) { check(chosen, problems); }, options);
  problems.throw_if_any();
  return std::visit([](const auto& chosen) { return schedule_of(chosen); }, options);
}

ScheduleOptions default_options(std::string_view type) {
  using Make = ScheduleOptions (*)();
  struct Row {
    std::string_view name;
    Make make;
  };
  constexpr std::array kRows{
      Row{kNames[0], [] { return ScheduleOptions(WarmupLrOptions{}); }},
      Row{kNames[1], [] { return ScheduleOptions(WarmupDecayLrOptions{}); }},
      Row{kNames[2], [] { return ScheduleOptions(WarmupCosineLrOptions{}); }},
      Row{kNames[3], [] { return ScheduleOptions(LrRangeTestOptions{}); }},
      Row{kNames[4], [] { return ScheduleOptions(OneCycleOptions{}); }},
  };
  for (const Row& row : kRows) {
    if (row.name == type) return row.make();
  }
  throw ConfigError(fmt::format("scheduler.type: unknown schedule \"{}\"; use one of {}", type,
                                fmt::join(kNames.begin(), kNames.end(), ", ")));
}

std::span<const std::string_view> schedule_names() { return kNames; }

}  // namespace lockstep::lr
