#include "plan/plan.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/units.h"

namespace lockstep::plan {
namespace {

constexpr int64_t kFloatBytes = 4;

MemoryPrediction predict_memory(const Plan& plan) {
  MemoryPrediction memory;
  int64_t trained = 0;
  for (const UnitLayout& layout : plan.layouts) trained += layout.numel;
  int64_t gradients = 0;
  for (const Parameter& parameter : plan.table.parameters) {
    if (parameter.requires_grad) gradients += parameter.numel * kFloatBytes;
    else memory.parameters += base::round_up(parameter.numel, kBlockNumel) * kFloatBytes;
  }
  memory.parameters += trained * kFloatBytes;
  memory.optimizer = trained * kFloatBytes * plan.options.optimizer_states;
  if (plan.gradients_stay_in_place()) memory.gradients = gradients;
  else memory.reduction_buffers = trained * kFloatBytes;
  return memory;
}

}  // namespace

Plan make_plan(ParameterTable table, const PlanOptions& options) {
  Plan plan;
  plan.options = options;
  plan.table = std::move(table);
  plan.layouts = make_unit_layouts(plan.table, options.world_size);
  plan.buckets = make_buckets(plan.layouts, options.world_size, options.bucket_numel);
  plan.segments = make_segments(plan.table, plan.layouts, plan.buckets, options.world_size);
  plan.instructions = plain_schedule(options.accumulation);
  plan.memory = predict_memory(plan);
  // Reduce-scatter sends every slice but the own one, all-gather sends the own one to every other rank.
  for (const Bucket& bucket : plan.buckets)
    plan.sent_bytes_per_step += 2 * (options.world_size - 1) * bucket.slice_numel * options.wire_bytes;
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
  json["bytes_per_rank"] = {{"parameters", plan.memory.parameters},
                            {"gradients", plan.memory.gradients},
                            {"reduction_buffers", plan.memory.reduction_buffers},
                            {"optimizer", plan.memory.optimizer},
                            {"total", plan.memory.total()}};
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
