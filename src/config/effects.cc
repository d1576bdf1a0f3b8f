// What the file says and nothing changes: one line for each.  And what "auto" came to.
#include <fmt/format.h>

#include <cmath>

#include "config/draft.h"

namespace lockstep::config {
namespace {

bool switched_on(const Draft& draft, const char* path) {
  const Value value = draft.keys.find(path)->field.get();
  const bool* on = std::get_if<bool>(&value);
  return on != nullptr && *on;
}

/// Why a given key changes nothing in this file; empty where it matters.
std::string without_effect(const Draft& draft, const Key& key) {
  const About& about = key.about;
  const Config& c = draft.config;
  if (about.inert != nullptr) return about.inert;
  if (about.only_if != nullptr && !switched_on(draft, about.only_if))
    return fmt::format("{} is not true", about.only_if);
  const int64_t stage = c.zero_optimization.stage;
  if (about.stages != nullptr &&
      std::string_view(about.stages).find(static_cast<char>('0' + stage)) == std::string_view::npos) {
    const std::string_view stages = about.stages;
    return fmt::format("it matters at stage {} only, and this file's stage is {}",
                       stages == "123"  ? "1-3"
                       : stages == "12" ? "1-2"
                                        : "3",
                       stage);
  }
  const bool nvme = c.zero_optimization.offload_optimizer.device == OffloadDevice::nvme ||
                    c.zero_optimization.offload_param.device == OffloadDevice::nvme;
  const auto is_none = [&](std::string_view block, OffloadDevice device) {
    return key.path.starts_with(block) && !key.path.ends_with(".device") && device == OffloadDevice::none;
  };
  if (is_none("zero_optimization.offload_param.", c.zero_optimization.offload_param.device) ||
      is_none("zero_optimization.offload_optimizer.", c.zero_optimization.offload_optimizer.device))
    return "the block's device is \"none\"";
  if (key.path.starts_with("aio.") && !nvme) return "nothing is offloaded to nvme";
  if (key.path == "bf16.check_grad_overflow") return "steps with non-finite gradients are skipped in every mode";
  if (key.path == "zero_force_ds_cpu_optimizer" && !c.zero_force_ds_cpu_optimizer.value_or(true))
    return "it lifts a check that is not made here";
  if (key.path == "pipeline.micro_batch_size" && !switched_on(draft, "pipeline.enabled"))
    return "pipeline.enabled is not true";
  return {};
}

void resolve(Draft& draft, const char* path, const std::optional<int64_t>& value, const char* how,
             const char* unknown) {
  const auto found = draft.config.reading.origins.find(path);
  if (found == draft.config.reading.origins.end() || found->second.source != Origin::Source::automatic) return;
  if (value) draft.keys.find(path)->field.set(*value);
  draft.origin(path, Origin::Source::automatic, value ? how : unknown);
}

}  // namespace

void resolve_automatic(Draft& draft) {
  Config& c = draft.config;
  const auto automatic = [&](const char* path) {
    const auto found = c.reading.origins.find(path);
    return found != c.reading.origins.end() && found->second.source == Origin::Source::automatic;
  };
  std::optional<int64_t> hidden = draft.options.hidden_size;
  // A width beyond this is no model's; its square must stay a count.
  if (hidden && (*hidden < 1 || *hidden > 1'000'000'000)) hidden.reset();
  constexpr const char* kUnknown = "the default, as the model's hidden size is not known here";
  const auto of_hidden = [&](double factor, int power) -> std::optional<int64_t> {
    if (!hidden) return std::nullopt;
    return static_cast<int64_t>(std::floor(factor * std::pow(static_cast<double>(*hidden), power)));
  };
  resolve(draft, "zero_optimization.reduce_bucket_size", of_hidden(1, 2), "hidden size squared", kUnknown);
  resolve(draft, "zero_optimization.stage3_prefetch_bucket_size", of_hidden(0.9, 2), "0.9 x hidden size squared",
          kUnknown);
  resolve(draft, "zero_optimization.stage3_param_persistence_threshold", of_hidden(10, 1), "10 x hidden size",
          kUnknown);

  constexpr const char* kTotalSteps = "scheduler.params.total_num_steps";
  if (automatic(kTotalSteps)) {
    if (draft.options.total_steps) {
      resolve(draft, kTotalSteps, draft.options.total_steps, "the run's number of steps", "");
    } else {
      draft.problem(kTotalSteps, "\"auto\" is the run's number of steps, which is not known here; write a number");
      draft.mark_failed(kTotalSteps);
    }
  }
  constexpr const char* kWarmup = "scheduler.params.warmup_num_steps";
  const int64_t total = c.scheduler.params.total_num_steps;
  if (automatic(kWarmup) && total > 0 && total <= c.scheduler.params.warmup_num_steps)
    resolve(draft, kWarmup, std::max<int64_t>(1, total / 10), "a tenth of total_num_steps", "");
  constexpr const char* kMaxLr = "scheduler.params.warmup_max_lr";
  if (automatic(kMaxLr) && !c.optimizer.type.empty()) c.scheduler.params.warmup_max_lr = {c.optimizer.params.lr};
  if (c.flops_profiler.enabled && !draft.valued("wall_clock_breakdown")) {
    c.wall_clock_breakdown = true;
    draft.origin("wall_clock_breakdown", Origin::Source::derived, "flops_profiler.enabled");
  }
}

void note_effects(Draft& draft) {
  for (const Key& key : draft.keys.keys()) {
    if (draft.given(key.path) && !draft.failed(key.path)) {
      const std::string reason = without_effect(draft, key);
      if (!reason.empty()) draft.notice(key.path, fmt::format("changes nothing: {}", reason));
    }
    const auto found = draft.config.reading.origins.find(key.path);
    if (found == draft.config.reading.origins.end() || found->second.source != Origin::Source::automatic) continue;
    draft.notice(key.path, fmt::format("\"auto\" is {} ({})", json_text(key.field.get()), found->second.detail));
  }
}

}  // namespace lockstep::config
