#include "lr/schedules.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "base/check.h"

namespace lockstep::lr {
namespace {

double value_of(const PerGroup& values, int group) {
  if (values.size() == 1) return values.front();
  LOCKSTEP_CHECK(group >= 0 && static_cast<size_t>(group) < values.size());
  return values[static_cast<size_t>(group)];
}

/// From 0 to 1 over the first steps.
class WarmupFactor {
 public:
  WarmupFactor(int64_t num_steps, Warmup type) : num_steps_(std::max<int64_t>(2, num_steps)), type_(type) {}

  [[nodiscard]] int64_t num_steps() const { return num_steps_; }
  /// Requires: 0 <= position < num_steps().
  [[nodiscard]] double at(int64_t position) const {
    const auto i = static_cast<double>(position);
    const auto steps = static_cast<double>(num_steps_);
    return type_ == Warmup::log ? std::log(i + 1) / std::log(steps) : i / steps;
  }

 private:
  int64_t num_steps_;
  Warmup type_;
};

/// The share of the way down to the end, 1 at the warm-up's end and 0 from total on.
double linear_decay(int64_t position, int64_t total, int64_t warmup) {
  const auto left = static_cast<double>(total - position);
  return std::max(0.0, left / static_cast<double>(std::max<int64_t>(1, total - warmup)));
}

class Constant final : public Schedule {
 public:
  [[nodiscard]] Rates at(int64_t /*position*/, double base_lr, int /*group*/) const override { return {.lr = base_lr}; }
};

class WarmupLr final : public Schedule {
 public:
  explicit WarmupLr(WarmupLrOptions options)
      : options_(std::move(options)), warmup_(options_.num_steps, options_.type) {}

  [[nodiscard]] Rates at(int64_t position, double base_lr, int group) const override {
    const double low = value_of(options_.min_lr, group);
    const double high = options_.max_lr ? value_of(*options_.max_lr, group) : base_lr;
    if (position < 0) return {.lr = low};
    if (position >= warmup_.num_steps()) return {.lr = high};
    return {.lr = low + (high - low) * warmup_.at(position)};
  }

 private:
  WarmupLrOptions options_;
  WarmupFactor warmup_;
};

class WarmupDecayLr final : public Schedule {
 public:
  explicit WarmupDecayLr(WarmupDecayLrOptions options)
      : options_(std::move(options)), warmup_(options_.num_steps, options_.type) {}

  [[nodiscard]] Rates at(int64_t position, double /*base_lr*/, int group) const override {
    const double low = value_of(options_.min_lr, group);
    const double high = value_of(options_.max_lr, group);
    if (position < 0) return {.lr = low};
    const double factor = position < warmup_.num_steps()
                              ? warmup_.at(position)
                              : linear_decay(position, options_.total_num_steps, warmup_.num_steps());
    return {.lr = low + (high - low) * factor};
  }

 private:
  WarmupDecayLrOptions options_;
  WarmupFactor warmup_;
};

class WarmupCosineLr final : public Schedule {
 public:
  explicit WarmupCosineLr(const WarmupCosineLrOptions& options)
      : options_(options), warmup_(options.num_steps, options.type) {}

  [[nodiscard]] Rates at(int64_t position, double base_lr, int /*group*/) const override {
    return {.lr = base_lr * ratio(position)};
  }

 private:
  [[nodiscard]] double ratio(int64_t position) const {
    if (position < 0) return 0;
    if (position < warmup_.num_steps()) {
      return options_.warmup_min_ratio + (1 - options_.warmup_min_ratio) * warmup_.at(position);
    }
    const int64_t span = std::max<int64_t>(1, options_.total_num_steps - warmup_.num_steps());
    const double progress =
        std::min(1.0, static_cast<double>(position - warmup_.num_steps() + 1) / static_cast<double>(span));
    const double cosine = 0.5 * (1 + std::cos(std::numbers::pi * progress));
    return options_.cos_min_ratio + (1 - options_.cos_min_ratio) * cosine;
  }

  WarmupCosineLrOptions options_;
  WarmupFactor warmup_;
};

class LrRangeTest final : public Schedule {
 public:
  explicit LrRangeTest(LrRangeTestOptions options) : options_(std::move(options)) {}

  [[nodiscard]] Rates at(int64_t position, double /*base_lr*/, int group) const override {
    double interval = static_cast<double>(position + 1) / static_cast<double>(options_.step_size);
    if (options_.staircase) interval = std::floor(interval);
    return {.lr = value_of(options_.min_lr, group) * (1 + options_.step_rate * interval)};
  }

 private:
  LrRangeTestOptions options_;
};

class OneCycle final : public Schedule {
 public:
  explicit OneCycle(OneCycleOptions options)
      : options_(std::move(options)),
        second_step_size_(options_.second_step_size.value_or(options_.first_step_size)),
        second_stair_count_(options_.second_stair_count.value_or(options_.first_stair_count)) {}

  [[nodiscard]] Rates at(int64_t position, double /*base_lr*/, int group) const override {
    const double low = value_of(options_.min_lr, group);
    const double high = value_of(options_.max_lr, group);
    const int64_t total = options_.first_step_size + second_step_size_;
    double lr = 0;
    double momentum = 0;
    if (position < total) {
      const double height = height_at((position + 1) % total);
      lr = low + (high - low) * height;
      // The value at construction is the low one, although the cycle starts at the high one.
      momentum = position < 0 ? options_.min_momentum
                              : options_.max_momentum - (options_.max_momentum - options_.min_momentum) * height;
    } else {
      const double intervals = options_.decay_step_size == 0 ? 0
                                                             : static_cast<double>(position - total + 1) /
                                                                   static_cast<double>(options_.decay_step_size);
      lr = low / (1 + options_.decay_lr_rate * intervals);
      momentum = options_.max_momentum * (1 + options_.decay_momentum_rate * intervals);
    }
    if (!options_.cycle_momentum) return {.lr = lr};
    return {.lr = lr, .momentum = momentum, .beta2 = kForcedBeta2};
  }

 private:
  static constexpr double kForcedBeta2 = 0.99;

  // 0 at the bottom of the cycle, 1 at its top.
  [[nodiscard]] double height_at(int64_t offset) const {
    const bool up = offset <= options_.first_step_size;
    const int64_t climbed = up ? offset : options_.first_step_size + second_step_size_ - offset;
    const int64_t steps = up ? options_.first_step_size : second_step_size_;
    const int64_t stairs = up ? options_.first_stair_count : second_stair_count_;
    if (stairs > 0) return static_cast<double>(climbed * stairs / steps) / static_cast<double>(stairs);
    return static_cast<double>(climbed) / static_cast<double>(steps);
  }

  OneCycleOptions options_;
  int64_t second_step_size_;
  int64_t second_stair_count_;
};

}  // namespace

std::unique_ptr<Schedule> schedule_of(const ConstantOptions& /*options*/) { return std::make_unique<Constant>(); }
std::unique_ptr<Schedule> schedule_of(const WarmupLrOptions& options) { return std::make_unique<WarmupLr>(options); }
std::unique_ptr<Schedule> schedule_of(const WarmupDecayLrOptions& options) {
  return std::make_unique<WarmupDecayLr>(options);
}
std::unique_ptr<Schedule> schedule_of(const WarmupCosineLrOptions& options) {
  return std::make_unique<WarmupCosineLr>(options);
}
std::unique_ptr<Schedule> schedule_of(const LrRangeTestOptions& options) {
  return std::make_unique<LrRangeTest>(options);
}
std::unique_ptr<Schedule> schedule_of(const OneCycleOptions& options) { return std::make_unique<OneCycle>(options); }

}  // namespace lockstep::lr
