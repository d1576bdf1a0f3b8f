// train_batch_size = micro batch x accumulation x replicas: finds what is absent, or says why it cannot be.
#include <fmt/format.h>

#include <optional>

#include "config/draft.h"

namespace lockstep::config {
namespace {

constexpr const char* kTotal = "train_batch_size";
constexpr const char* kMicro = "train_micro_batch_size_per_gpu";
constexpr const char* kAccumulation = "gradient_accumulation_steps";
// A product above this is no batch; below it every product of three keys fits into a double exactly.
constexpr int64_t kLargest = int64_t{1} << 53;

struct Batch {
  std::optional<int64_t> total{};
  std::optional<int64_t> micro{};
  std::optional<int64_t> accumulation{};
};

std::optional<int64_t> product(int64_t a, int64_t b) {
  int64_t out = 0;
  if (__builtin_mul_overflow(a, b, &out) || out > kLargest) return std::nullopt;
  return out;
}

std::string text(const std::optional<int64_t>& value) { return value ? fmt::format("{}", *value) : "not given"; }

/// Settles world_size and replicas; false where they cannot be.
bool find_replicas(Draft& draft, const Batch& batch) {
  Config& c = draft.config;
  const bool staged = c.pipeline.enabled.value_or(false);
  const int64_t sequence = c.sequence_parallel_size.value_or(1);
  if (!draft.options.world_size) {
    c.replicas = c.data_parallel_size.value_or(1);
    if (batch.total && batch.micro && batch.accumulation) {
      const std::optional<int64_t> group = product(*batch.micro, *batch.accumulation);
      if (group && *batch.total % *group == 0) c.replicas = *batch.total / *group;
    }
    const std::optional<int64_t> inner = product(staged ? c.pipeline.stages.value_or(1) : 1, sequence);
    const std::optional<int64_t> world = inner ? product(*inner, c.replicas) : std::nullopt;
    c.world_size = world.value_or(1);
    return true;
  }
  c.world_size = *draft.options.world_size;
  int64_t rest = c.world_size;
  if (rest % sequence != 0) {
    draft.problem("sequence_parallel_size",
                  fmt::format("{} does not divide the world of {}; write a divisor", sequence, rest));
    return false;
  }
  rest /= sequence;
  if (staged) {
    const int64_t stages = c.pipeline.stages.value_or(rest);
    if (rest % stages != 0) {
      draft.problem("pipeline.stages", fmt::format("{} stages do not divide {} ranks; write a divisor", stages, rest));
      return false;
    }
    if (!c.pipeline.stages) {
      c.pipeline.stages = stages;
      const bool automatic = draft.given("pipeline.stages");
      draft.origin("pipeline.stages", automatic ? Origin::Source::automatic : Origin::Source::derived,
                   "every rank is a stage");
    }
    rest /= stages;
  }
  c.replicas = rest;
  return true;
}

std::string replicas_text(const Draft& draft) {
  const Config& c = draft.config;
  if (!draft.options.world_size) return fmt::format("replicas {} (no world size is given)", c.replicas);
  std::string how = fmt::format("world {}", c.world_size);
  if (c.pipeline.enabled.value_or(false)) how += fmt::format(" / {} stages", c.pipeline.stages.value_or(1));
  if (c.sequence_parallel_size) how += fmt::format(" / {} sequence ranks", *c.sequence_parallel_size);
  return fmt::format("replicas {} ({})", c.replicas, how);
}

std::string numbers(const Draft& draft, const Batch& batch) {
  return fmt::format("{} {}, micro batch {}, accumulation {}, {}", kTotal, text(batch.total), text(batch.micro),
                     text(batch.accumulation), replicas_text(draft));
}

/// The multiples of `step` beside `value`, "28 or 32".
std::string multiples_beside(int64_t value, int64_t step) {
  const int64_t below = value / step * step;
  const std::optional<int64_t> above = product(value / step + 1, step);
  if (below == 0) return above ? fmt::format("{}", *above) : "less";
  return above ? fmt::format("{} or {}", below, *above) : fmt::format("{}", below);
}

void too_large(Draft& draft, const Batch& batch) {
  draft.problem(
      batch.total ? kTotal : kMicro,
      fmt::format("the batch keys multiply to more than 2^53 ({}); write smaller ones", numbers(draft, batch)));
}

/// The three numbers of a legal batch, or nothing and a problem.
void complete(Draft& draft, Batch& batch) {
  const int64_t replicas = draft.config.replicas;
  const Batch given = batch;
  for (const auto& value : {batch.total, batch.micro, batch.accumulation}) {
    if (value.value_or(0) > kLargest) return too_large(draft, given);
  }
  if (!batch.total && !batch.micro) {
    draft.problem(batch.accumulation ? kAccumulation : "",
                  fmt::format("no batch size: {}; write {} or {}", numbers(draft, batch), kTotal, kMicro));
    return;
  }
  if (!batch.total) {
    if (!batch.accumulation) batch.accumulation = 1;
    const std::optional<int64_t> per_replica = product(*batch.micro, *batch.accumulation);
    batch.total = per_replica ? product(*per_replica, replicas) : std::nullopt;
    if (!batch.total) return too_large(draft, given);
    draft.origin(kTotal, Origin::Source::derived, "micro batch x accumulation x replicas");
    if (!given.accumulation) draft.origin(kAccumulation, Origin::Source::derived, "1, as no total is given");
    return;
  }
  if (!batch.micro) {
    if (!batch.accumulation) {
      batch.accumulation = 1;
      draft.origin(kAccumulation, Origin::Source::derived, "1, as only the total is given");
    }
    const std::optional<int64_t> parts = product(*batch.accumulation, replicas);
    if (!parts) return too_large(draft, given);
    if (*batch.total % *parts != 0) {
      draft.problem(kTotal, fmt::format("the samples do not divide into {} equal micro batches ({}); write {}", *parts,
                                        numbers(draft, given), multiples_beside(*batch.total, *parts)));
      return;
    }
    batch.micro = *batch.total / *parts;
    draft.origin(kMicro, Origin::Source::derived, "total / (accumulation x replicas)");
    return;
  }
  const std::optional<int64_t> group = product(*batch.micro, replicas);
  if (!group) return too_large(draft, given);
  if (!batch.accumulation) {
    if (*batch.total % *group != 0) {
      draft.problem(kTotal, fmt::format("the samples are no multiple of micro batch x replicas = {} ({}); write {}",
                                        *group, numbers(draft, given), multiples_beside(*batch.total, *group)));
      return;
    }
    batch.accumulation = *batch.total / *group;
    draft.origin(kAccumulation, Origin::Source::derived, "total / (micro batch x replicas)");
    return;
  }
  const std::optional<int64_t> whole = product(*group, *batch.accumulation);
  if (!whole) return too_large(draft, given);
  if (*whole != *batch.total) {
    std::string fix = fmt::format("write {} {}", kTotal, *whole);
    if (*batch.total % *group == 0) fix += fmt::format(", or {} {}", kAccumulation, *batch.total / *group);
    draft.problem(kTotal, fmt::format("{} is not {} x {} x {} = {} ({}); {}", *batch.total, *batch.micro,
                                      *batch.accumulation, replicas, *whole, numbers(draft, given), fix));
  }
}

}  // namespace

void resolve_batch(Draft& draft) {
  Config& c = draft.config;
  if (draft.failed(kTotal) || draft.failed(kMicro) || draft.failed(kAccumulation)) return;
  if (draft.failed("pipeline.stages") || draft.failed("sequence_parallel_size")) return;
  if (c.elasticity.enabled) return;  // It chooses the batch; check_rules looks after explicit keys.
  Batch batch;
  if (draft.valued(kTotal)) batch.total = c.train_batch_size;
  if (draft.valued(kMicro)) batch.micro = c.train_micro_batch_size_per_gpu;
  if (draft.valued(kAccumulation)) batch.accumulation = c.gradient_accumulation_steps;
  if (c.pipeline.enabled.value_or(false) && c.pipeline.micro_batch_size) {
    if (batch.micro && *batch.micro != *c.pipeline.micro_batch_size) {
      draft.problem("pipeline.micro_batch_size", fmt::format("{} differs from {} {}; write it once",
                                                             *c.pipeline.micro_batch_size, kMicro, *batch.micro));
      return;
    }
    if (!batch.micro) draft.origin(kMicro, Origin::Source::derived, "pipeline.micro_batch_size");
    batch.micro = c.pipeline.micro_batch_size;
  }
  if (!find_replicas(draft, batch)) return;
  complete(draft, batch);
  if (batch.total) c.train_batch_size = *batch.total;
  if (batch.micro) c.train_micro_batch_size_per_gpu = *batch.micro;
  if (batch.accumulation) c.gradient_accumulation_steps = *batch.accumulation;
  if (c.data_parallel_size && *c.data_parallel_size != c.replicas) {
    draft.problem("data_parallel_size", fmt::format("{} is not the number of {}; remove it, or change the world",
                                                    *c.data_parallel_size, replicas_text(draft)));
  }
}

}  // namespace lockstep::config
