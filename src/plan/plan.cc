#include "plan/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>

#include "base/units.h"

namespace lockstep::plan {
namespace {

constexpr int64_t kFloatBytes = 4;

MemoryPrediction predict_memory(const Plan& plan) {
  MemoryPrediction memory;
  const auto held = [&](int64_t bytes, bool sharded) { return sharded ? bytes / plan.options.world_size : bytes; };
  int64_t trained = 0;
  for (const UnitLayout& layout : plan.layouts) trained += layout.numel * kFloatBytes;
  int64_t gradients = 0;
  for (const Parameter& parameter : plan.table.parameters) {
    if (parameter.requires_grad)
      gradients += parameter.numel * kFloatBytes;
    else
      memory.parameters += base::round_up(parameter.numel, kBlockNumel) * kFloatBytes;
  }
  memory.parameters += held(trained, plan.options.shard.parameters);
  if (plan.parameters_are_sharded()) {
    // One unit that runs, the next one fetched ahead.
    std::vector<int64_t> numels;
    for (const UnitLayout& layout : plan.layouts) numels.push_back(layout.numel);
    std::ranges::sort(numels, std::greater<>());
    numels.resize(std::min<size_t>(numels.size(), 2));
    for (const int64_t numel : numels) memory.whole_units += numel * kFloatBytes;
  }
  memory.optimizer = held(trained * plan.options.optimizer_states, plan.options.shard.optimizer);
  if (plan.gradients_stay_in_place()) {
    memory.gradients = gradients;
  } else if (plan.buckets_are_transient()) {
    // Two buckets are under way at a time, each with what the other ranks send of the own slice.
    int64_t largest = 0;
    for (const Bucket& bucket : plan.buckets) largest = std::max(largest, bucket.slice_numel);
    memory.gradients = held(trained, true);
    memory.reduction_buffers = 2 * largest * (2 * plan.options.world_size - 1) * kFloatBytes;
  } else {
    memory.reduction_buffers = trained;
    if (plan.reduces_each_micro_batch()) memory.gradients = held(trained, true);
  }
  return memory;
}

int64_t predict_sent_bytes(const Plan& plan) {
  // Reduce-scatter sends every slice but the own one, all-gather sends the own one to every other rank.
  int64_t slices = 0;
  for (const Bucket& bucket : plan.buckets) slices += bucket.slice_numel;
  const int64_t transfer = slices * (plan.options.world_size - 1);
  const int64_t reductions = plan.reduces_each_micro_batch() ? plan.options.accumulation : 1;
  const int64_t reduced = reductions * transfer * plan.options.wire_bytes;
  if (plan.parameters_are_sharded()) {
    // Whole units are gathered for forward and for backward of every micro-batch; the last one stays whole in between.
    // A unit whose parameters are tied into another is gathered again for that one, which is not counted here.
    const int64_t kept = plan.layouts.back().slice_numel * (plan.options.world_size - 1);
    return reduced + plan.options.accumulation * (2 * transfer - kept) * kFloatBytes;
  }
  if (!plan.options.shard.optimizer)
    return reduced + transfer * (plan.reduces_each_micro_batch() ? kFloatBytes : plan.options.wire_bytes);
  return reduced + transfer * kFloatBytes;
}

}  // namespace

Plan make_plan(ParameterTable table, const PlanOptions& options) {
  Plan plan;
  plan.options = options;
  plan.table = std::move(table);
  plan.layouts = make_unit_layouts(plan.table, options.world_size);
  plan.buckets = make_buckets(plan.layouts, options.world_size, options.bucket_numel);
  plan.segments = make_segments(plan.table, plan.layouts, plan.buckets, options.world_size);
  if (!plan.updates_everything() && !plan.parameters_are_sharded())
    plan.gathers = make_gathers(plan.layouts, options.gather_numel);
  plan.instructions = plain_schedule(options.accumulation);
  plan.memory = predict_memory(plan);
  plan.sent_bytes_per_step = predict_sent_bytes(plan);
  return plan;
}

uint64_t Plan::hash() const {
  // FNV-1a over what decides the order and the length of transfers.
  uint64_t hash = 14695981039346656037ULL;
  const auto mix = [&hash](uint64_t value) {
    for (int byte = 0; byte < 8; ++byte) {
      hash = (hash ^ (value >> (8 * byte) & 0xFF)) * 1099511628211ULL;
    }
  };
  mix(static_cast<uint64_t>(options.world_size));
  mix(static_cast<uint64_t>(options.accumulation));
  mix(static_cast<uint64_t>(options.wire_bytes));
  for (const bool flag :
       {options.shard.optimizer, options.shard.gradients, options.shard.parameters, reduces_each_micro_batch()})
    mix(flag ? 1 : 0);
  for (const GatherGroup& group : gathers) mix(static_cast<uint64_t>(group.slice_numel));
  for (const Parameter& parameter : table.parameters) {
    for (const char c : parameter.name) mix(static_cast<unsigned char>(c));
    for (const int64_t dim : parameter.shape) mix(static_cast<uint64_t>(dim));
    mix(parameter.requires_grad ? 1 : 0);
  }
  for (const Bucket& bucket : buckets) {
    mix(static_cast<uint64_t>(bucket.slice_numel));
    for (const BucketPiece& piece : bucket.pieces) {
      mix(static_cast<uint64_t>(piece.unit));
      mix(static_cast<uint64_t>(piece.slice_begin));
    }
  }
  return hash;
}

std::string to_text(const Plan& plan) {
  std::string text;
  const auto line = [&text](std::string_view name, const std::string& value) {
    text += fmt::format("{:<28} {:>16}\n", name, value);
  };
  using base::format_bytes;
  using base::format_count;
  line("ranks", format_count(plan.options.world_size));
  line("parameters", format_count(plan.table.numel()));
  line("units", format_count(static_cast<int64_t>(plan.table.units.size())));
  line("buckets", format_count(static_cast<int64_t>(plan.buckets.size())));
  text += "\nper rank\n";
  line("  parameters", format_bytes(plan.memory.parameters));
  if (plan.memory.whole_units > 0) line("  whole units", format_bytes(plan.memory.whole_units));
  line("  gradients", format_bytes(plan.memory.gradients));
  line("  reduction buffers", format_bytes(plan.memory.reduction_buffers));
  line("  optimizer state", format_bytes(plan.memory.optimizer));
  line("  model state in all", format_bytes(plan.memory.total()));
  line("  sent per step", format_bytes(plan.sent_bytes_per_step));
  text += fmt::format("\n{:<28} {:>14} {:>14}\n", "unit", "parameters", "slice a rank");
  for (size_t unit = 0; unit < plan.layouts.size(); ++unit) {
    int64_t numel = 0;
    for (const Placement& placement : plan.layouts[unit].placements)
      numel += plan.table.parameters[static_cast<size_t>(placement.parameter)].numel;
    text += fmt::format("{:<28} {:>14} {:>14}\n", plan.table.units[unit], format_count(numel),
                        format_count(plan.layouts[unit].slice_numel));
  }
  text += fmt::format("\none step: {}\n", describe(plan.instructions));
  return text;
}

std::string to_json_text(const Plan& plan) {
  nlohmann::ordered_json json;
  json["world_size"] = plan.options.world_size;
  json["parameters"] = plan.table.numel();
  json["accumulation"] = plan.options.accumulation;
  json["hash"] = fmt::format("{:016x}", plan.hash());
  json["bytes_per_rank"] = {
      {"parameters", plan.memory.parameters}, {"whole_units", plan.memory.whole_units},
      {"gradients", plan.memory.gradients},   {"reduction_buffers", plan.memory.reduction_buffers},
      {"optimizer", plan.memory.optimizer},   {"total", plan.memory.total()}};
  json["sent_bytes_per_step"] = plan.sent_bytes_per_step;
  for (size_t unit = 0; unit < plan.layouts.size(); ++unit)
    json["units"].push_back({{"name", plan.table.units[unit]},
                             {"numel", plan.layouts[unit].numel},
                             {"slice_numel", plan.layouts[unit].slice_numel}});
  for (const Bucket& bucket : plan.buckets) json["buckets"].push_back({{"slice_numel", bucket.slice_numel}});
  json["instructions"] = describe(plan.instructions);
  return json.dump(2) + "\n";
}

}  // namespace lockstep::plan
