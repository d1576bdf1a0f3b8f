// The update of one optimizer step, as the papers have it: reduce, check, clip, update, gather, schedule, report.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "engine/parts.h"
#include "lockstep/error.h"
#include "precision/clipping.h"

namespace lockstep::engine {
namespace {

/// The one control message of a step.
struct StepRecord {
  kernels::ExactSum squares{};  ///< Of the slices that the rank owns.
  double loss_sum = 0;
  int64_t tokens = 0;
  int32_t backward_failed = 0;
  int32_t non_finite_rank = -1;
  int32_t non_finite_parameter = -1;
  int32_t unused_parameter = -1;
  monitor::PhaseMilliseconds times{};
};
static_assert(std::is_trivially_copyable_v<StepRecord>);

constexpr const char* kFailedBackward = "the gradients of a backward that failed";

std::vector<StepRecord> exchange(Communicator& group, const StepRecord& mine) {
  std::vector<StepRecord> all(static_cast<size_t>(group.size()));
  group.all_gather_records(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)),
                           "the step's control message");
  return all;
}

void add_times(StepReport& report, const std::vector<StepRecord>& records) {
  static constexpr std::array<double PhaseTimes::*, monitor::kPhases> kFields{
      &PhaseTimes::forward_ms, &PhaseTimes::backward_ms, &PhaseTimes::reduce_ms, &PhaseTimes::step_ms};
  for (const StepRecord& record : records) {
    for (size_t phase = 0; phase < monitor::kPhases; ++phase) {
      const auto field = kFields[phase];
      report.mean_times.*field += record.times[phase] / static_cast<double>(records.size());
      report.max_times.*field = std::max(report.max_times.*field, record.times[phase]);
    }
  }
}

/// What is wrong where the config wants a gradient for every parameter; empty for nothing.
std::string find_unused(const Engine::Parts& parts, const std::vector<StepRecord>& records) {
  const int64_t stage = parts.config.zero_optimization.stage;
  if (parts.config.zero_optimization.ignore_unused_parameters || stage < 1 || stage > 2) return {};
  for (size_t rank = 0; rank < records.size(); ++rank) {
    if (records[rank].unused_parameter < 0) continue;
    const auto parameter = static_cast<size_t>(records[rank].unused_parameter);
    return fmt::format(
        "rank {}: no backward of step {} gave {} a gradient, so the step was skipped; with "
        "zero_optimization.ignore_unused_parameters true it counts as zeros",
        rank, parts.steps, parts.plan.table.parameters[parameter].name);
  }
  return {};
}

/// The first rank and tensor that is not finite, if any.
std::optional<precision::NonFinite> find_non_finite(const Engine::Parts& parts,
                                                    const std::vector<StepRecord>& records) {
  for (size_t rank = 0; rank < records.size(); ++rank)
    if (records[rank].backward_failed != 0)
      return precision::NonFinite{.step = parts.steps, .rank = static_cast<int>(rank), .tensor = kFailedBackward};
  for (size_t rank = 0; rank < records.size(); ++rank)
    if (!std::isfinite(records[rank].loss_sum))
      return precision::NonFinite{.step = parts.steps, .rank = static_cast<int>(rank), .tensor = "loss"};
  for (const StepRecord& record : records) {
    if (record.non_finite_rank < 0) continue;
    const auto parameter = static_cast<size_t>(record.non_finite_parameter);
    return precision::NonFinite{.step = parts.steps,
                                .rank = record.non_finite_rank,
                                .overflow = true,
                                .tensor = fmt::format("gradient of {}", parts.plan.table.parameters[parameter].name)};
  }
  return std::nullopt;
}

}  // namespace

StepReport run_step(Engine::Parts& parts) {
  StepReport report{.step = ++parts.steps, .loss_scale = parts.scaler.scale()};

  // Reduce.
  StepRecord mine{
      .loss_sum = parts.loss_sum, .tokens = parts.step_tokens, .backward_failed = parts.backward_failed ? 1 : 0};
  {
    const Engine::Parts::PhaseScope phase(parts, monitor::Phase::reduce);
    const zero::ReducedNorm norm = parts.reducer->finish();
    mine.squares = norm.squares;
    mine.non_finite_rank = norm.non_finite.rank;
    mine.non_finite_parameter = norm.non_finite.parameter;
    mine.unused_parameter = parts.reducer->first_without_gradient();
  }

  // Check: every rank sees the same records, so all take the same way from here.  Times are the step's before this
  // one's update, whose own time comes with the next step's message.
  mine.times = parts.timers.take();
  const std::vector<StepRecord> records = exchange(*parts.group, mine);
  add_times(report, records);
  kernels::ExactSum squares;
  double loss_sum = 0;
  for (const StepRecord& record : records) {
    squares.add(record.squares);
    loss_sum += record.loss_sum;
    parts.tokens += record.tokens;
  }
  report.loss = loss_sum / static_cast<double>(parts.plan.options.accumulation * parts.group->size());
  report.tokens = parts.tokens;
  const std::optional<precision::NonFinite> non_finite = find_non_finite(parts, records);
  const std::string unused = find_unused(parts, records);
  report.skipped = non_finite.has_value() || !unused.empty();
  report.grad_norm =
      report.skipped ? std::nan("") : std::sqrt(squares.rounded()) * parts.gradient_scale / report.loss_scale;
  report.lr = parts.schedule->at(parts.applied_steps - 1, parts.optimizer->groups().front().lr).lr;

  const Engine::Parts::PhaseScope phase(parts, monitor::Phase::step);
  if (!report.skipped) {
    // Clip and update in one pass over each slice.
    const double divisor = precision::gradient_divisor(report.grad_norm, parts.config.gradient_clipping,
                                                       report.loss_scale / parts.gradient_scale);
    int group_index = 0;
    parts.optimizer->update(*parts.reducer, [&](const zero::ParameterGroup& group) {
      const lr::Rates rates = parts.schedule->at(parts.applied_steps - 1, group.lr, group_index++);
      return optim::UpdateContext{.lr = rates.lr,
                                  .momentum = rates.momentum.value_or(-1),
                                  .beta2 = rates.beta2.value_or(-1),
                                  .weight_decay = group.weight_decay,
                                  .applied_step = group.applied_steps + 1,
                                  .gradient_divisor = static_cast<float>(divisor)};
    });
    parts.parameters->gather_updated();
    for (zero::ParameterGroup& group : parts.optimizer->groups()) ++group.applied_steps;
    ++parts.applied_steps;  // The schedule's position.
    parts.non_finite.applied();
    parts.scaler.applied();
  }
  parts.reducer->release();
  parts.micro_batch = 0;
  parts.loss_sum = 0;
  parts.backward_failed = false;
  parts.step_tokens = 0;
  parts.last_report = report;
  if (non_finite)
    parts.log.warning(non_finite->overflow && parts.scaler.is_dynamic() ? parts.scaler.overflowed(*non_finite)
                                                                        : parts.non_finite.skipped(*non_finite));
  if (!unused.empty()) throw ConfigError(unused);
  return report;
}

}  // namespace lockstep::engine
