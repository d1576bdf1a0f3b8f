#include "plan/prediction.h"

#include <algorithm>
#include <iterator>
#include <set>

#include "base/units.h"

namespace lockstep::plan {
namespace {

constexpr int64_t kFloatBytes = 4;

/// What of Plan::gathers is whole while one layer runs.
using Whole = std::set<int>;

Whole gathers_with(const Plan& plan, const std::vector<int>& units) {
  Whole found;
  for (size_t gather = 0; gather < plan.gathers.size(); ++gather)
    for (const int unit : plan.gathers[gather].units)
      if (std::ranges::find(units, unit) != units.end()) found.insert(static_cast<int>(gather));
  return found;
}

int64_t numel_of(const Plan& plan, const Whole& whole) {
  int64_t slices = 0;
  for (const int gather : whole) slices += plan.gathers[static_cast<size_t>(gather)].slice_numel;
  return slices * plan.options.world_size;
}

/// Layer by layer: forward, then backward of one micro-batch.  What an observed layer took stays while it fits.
std::vector<Whole> whole_by_layer(const Plan& plan) {
  std::vector<Whole> sequence;
  Whole stays;
  const auto add = [&](const LayerUnits& layer, const std::vector<int>& units) {
    Whole whole = gathers_with(plan, units);
    if (layer.observed && numel_of(plan, whole) <= plan.options.max_live_numel)
      stays.insert(whole.begin(), whole.end());
    else if (layer.observed)
      sequence.emplace_back();  // Gathered anew, and given back in between.
    whole.insert(stays.begin(), stays.end());
    sequence.push_back(std::move(whole));
  };
  const auto& layers = plan.table.layers;
  for (auto layer = layers.begin(); layer != layers.end(); ++layer) add(*layer, layer->forward);
  for (auto layer = layers.rbegin(); layer != layers.rend(); ++layer) add(*layer, layer->backward);
  return sequence;
}

/// Elements at a time: a layer that runs, the next one fetched ahead, and the buffer of a gather of several units.
int64_t whole_numel(const Plan& plan) {
  int64_t peak = 0;
  Whole before;
  for (Whole now : whole_by_layer(plan)) {
    before.insert(now.begin(), now.end());
    peak = std::max(peak, numel_of(plan, before));
    before = std::move(now);
  }
  // What one layer needs is whole whatever the limit; of an observed one, what one operator needs.
  int64_t limit = plan.options.max_live_numel;
  int64_t buffer = 0;
  for (const LayerUnits& layer : plan.table.layers)
    if (!layer.observed) limit = std::max(limit, numel_of(plan, gathers_with(plan, layer.forward)));
  for (const GatherGroup& gather : plan.gathers) {
    const int64_t numel = gather.slice_numel * plan.options.world_size;
    limit = std::max(limit, numel);
    if (gather.units.size() > 1) buffer = std::max(buffer, numel);
  }
  return std::min(peak, limit) + buffer;
}

/// Elements of weights that are gathered for one micro-batch.
int64_t gathered_numel(const Plan& plan) {
  int64_t numel = 0;
  Whole before;
  for (const Whole& now : whole_by_layer(plan)) {
    Whole fresh;
    std::ranges::set_difference(now, before, std::inserter(fresh, fresh.end()));
    numel += numel_of(plan, fresh);
    before = now;
  }
  return numel;
}

/// Elements of buckets at a time: backward opens all of a unit's while the last two of the unit before are reduced.
int64_t open_bucket_numel(const Plan& plan) {
  const auto buckets_with = [&](int unit) {
    std::vector<int> found;
    for (size_t bucket = 0; bucket < plan.buckets.size(); ++bucket)
      if (std::ranges::find(plan.buckets[bucket].pieces, unit, &BucketPiece::unit) != plan.buckets[bucket].pieces.end())
        found.push_back(static_cast<int>(bucket));
    return found;
  };
  int64_t peak = 0;
  std::vector<int> before;
  for (auto unit = static_cast<int>(plan.layouts.size()) - 1; unit >= 0; --unit) {
    const std::vector<int> now = buckets_with(unit);
    if (now.empty()) continue;
    std::set<int> open(now.begin(), now.end());
    open.insert(before.end() - std::min<std::ptrdiff_t>(2, std::ssize(before)), before.end());
    int64_t slices = 0;
    for (const int bucket : open) slices += plan.buckets[static_cast<size_t>(bucket)].slice_numel;
    peak = std::max(peak, slices * plan.options.world_size);
    before = now;
  }
  return peak;
}

}  // namespace

MemoryPrediction predict_memory(const Plan& plan) {
  MemoryPrediction memory;
  const int64_t world = plan.options.world_size;
  const int64_t weight_bytes = bytes_of(plan.options.weight_type);
  const auto held = [&](int64_t bytes, bool sharded) { return sharded ? bytes / world : bytes; };
  int64_t trained = 0;  // Elements, as the other counts.
  for (const UnitLayout& layout : plan.layouts) trained += layout.numel;
  int64_t gradients = 0;
  int64_t frozen = 0;
  for (const Parameter& parameter : plan.table.parameters)
    (parameter.requires_grad ? gradients : frozen) +=
        parameter.requires_grad ? parameter.numel : base::round_up(parameter.numel, kBlockNumel);
  memory.parameters = held(trained * weight_bytes, plan.options.shard.parameters) + frozen * weight_bytes;
  if (plan.keeps_masters()) memory.master_weights = held(trained * kFloatBytes, plan.options.shard.optimizer);
  if (plan.parameters_are_sharded()) memory.whole_units = whole_numel(plan) * weight_bytes;
  memory.optimizer = held(trained * kFloatBytes * plan.options.optimizer_states, plan.options.shard.optimizer);
  if (plan.gradients_stay_in_place()) {
    memory.gradients = gradients * weight_bytes;
    return memory;
  }
  // The bucket that is reduced also takes what the other ranks send of the own slice, and its copy for the wire.
  int64_t largest = 0;
  for (const Bucket& bucket : plan.buckets) largest = std::max(largest, bucket.slice_numel);
  const int64_t copies = plan.bucket_type() == plan.options.wire_type ? 0 : world;
  const int64_t transfer = largest * (world - 1 + copies) * bytes_of(plan.options.wire_type);
  const bool transient = plan.buckets_are_transient();
  memory.reduction_buffers = (transient ? open_bucket_numel(plan) : trained) * bytes_of(plan.bucket_type()) + transfer;
  if (transient || plan.reduces_each_micro_batch())
    memory.gradients = held(trained * bytes_of(plan.slice_type()), true);
  return memory;
}

int64_t predict_sent_bytes(const Plan& plan) {
  // Reduce-scatter sends every slice but the own one, all-gather sends the own one to every other rank.
  int64_t slices = 0;
  for (const Bucket& bucket : plan.buckets) slices += bucket.slice_numel;
  const int64_t transfer = slices * (plan.options.world_size - 1);
  const int64_t reductions = plan.reduces_each_micro_batch() ? plan.options.accumulation : 1;
  const int64_t wire_bytes = bytes_of(plan.options.wire_type);
  const int64_t weight_bytes = bytes_of(plan.options.weight_type);
  const int64_t reduced = reductions * transfer * wire_bytes;
  if (plan.parameters_are_sharded()) {
    const int64_t gathered = gathered_numel(plan) / plan.options.world_size * (plan.options.world_size - 1);
    return reduced + plan.options.accumulation * gathered * weight_bytes;
  }
  if (!plan.options.shard.optimizer)
    return reduced + transfer * (plan.reduces_each_micro_batch() ? kFloatBytes : wire_bytes);
  return reduced + transfer * weight_bytes;
}

}  // namespace lockstep::plan
