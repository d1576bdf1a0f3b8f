#include "plan/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/units.h"
#include "plan/prediction.h"

namespace lockstep::plan {
namespace {

/// Units that are read at times of their own: by operators of an observed layer, or by more than one layer.
std::vector<int> units_gathered_alone(const ParameterTable& table) {
  std::vector<int> alone;
  std::vector<int> readers(table.units.size());
  for (const LayerUnits& layer : table.layers)
    for (const int unit : layer.forward)
      if (layer.observed || ++readers[static_cast<size_t>(unit)] == 2) alone.push_back(unit);
  return alone;
}

/// Units of layers that look rows up: their gradients are zeros elsewhere.
std::vector<int> units_looked_up(const ParameterTable& table) {
  std::vector<int> units;
  const std::vector<int> alone = units_gathered_alone(table);
  for (const LayerUnits& layer : table.layers)
    if (layer.backward.empty())
      for (const int unit : layer.forward)
        if (std::ranges::find(alone, unit) == alone.end()) units.push_back(unit);
  return units;
}

std::vector<GatherGroup> gathers_of(const Plan& plan) {
  if (plan.updates_everything()) return {};
  if (!plan.parameters_are_sharded()) return make_gathers(plan.layouts, plan.options.gather_numel, {});
  int64_t limit = kSmallUnitsNumel;
  for (const UnitLayout& layout : plan.layouts) limit = std::max(limit, layout.numel);
  return make_gathers(plan.layouts, std::min({limit, plan.options.gather_numel, plan.options.max_live_numel}),
                      units_gathered_alone(plan.table));
}

}  // namespace

Plan make_plan(ParameterTable table, const PlanOptions& options) {
  Plan plan;
  plan.options = options;
  plan.table = std::move(table);
  plan.layouts = make_unit_layouts(plan.table, options.world_size);
  plan.buckets = make_buckets(plan.layouts, options.world_size, options.bucket_numel,
                              options.sparse_gradients ? units_looked_up(plan.table) : std::vector<int>());
  plan.segments = make_segments(plan.table, plan.layouts, plan.buckets, options.world_size);
  plan.gathers = gathers_of(plan);
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
  mix(static_cast<uint64_t>(options.weight_type));
  mix(static_cast<uint64_t>(options.wire_type));
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
    mix(bucket.sparse ? 1 : 0);
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
  if (plan.keeps_masters()) line("  master weights", format_bytes(plan.memory.master_weights));
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
  json["bytes_per_rank"] = {{"parameters", plan.memory.parameters},
                            {"master_weights", plan.memory.master_weights},
                            {"whole_units", plan.memory.whole_units},
                            {"gradients", plan.memory.gradients},
                            {"optimizer", plan.memory.optimizer},
                            {"reduction_buffers", plan.memory.reduction_buffers},
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
