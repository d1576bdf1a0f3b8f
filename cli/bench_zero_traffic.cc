#include "bench_zero_traffic.h"

#include <ATen/Parallel.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/units.h"
#include "comm/local/local_group.h"
#include "engine/parts.h"
#include "lockstep/config.h"
#include "lockstep/engine.h"
#include "lockstep/error.h"
#include "lockstep/launch.h"
#include "lockstep/models.h"

namespace lockstep::cli {
namespace {

constexpr int64_t kHeads = 4;
constexpr int64_t kTokens = 2;  // Traffic does not depend on them.
constexpr int64_t kFloatBytes = 4;
constexpr int64_t kSmallWidth = 64;
constexpr int64_t kVocabulary = 256;
constexpr int64_t kLargeVocabulary = 8192;

struct Case {
  models::Gpt2Options model{};
  int ranks = 2;
  int64_t stage = 0;
  int64_t bucket_numel = 0;
  int64_t accumulation = 1;
};

Config make_config(const Case& it) {
  const nlohmann::json text{
      {"train_micro_batch_size_per_gpu", 1},
      {"gradient_accumulation_steps", it.accumulation},
      {"optimizer", {{"type", "AdamW"}, {"params", {{"lr", 1e-3}}}}},
      {"zero_optimization",
       {{"stage", it.stage}, {"reduce_bucket_size", it.bucket_numel}, {"allgather_bucket_size", it.bucket_numel}}},
      {"lockstep", {{"reduce_at", "boundary"}}}};
  return Config::from_text(text.dump(), "the benchmark's config", {.world_size = it.ranks});
}

/// What rank 0's communicator counted over one step.
TrafficCounters measure_step(const Case& it) {
  const Config config = make_config(it);
  TrafficCounters counted;
  comm::run_ranks(it.ranks, [&](Communicator& rank) {
    // The thread's own communicator belongs to run_ranks, which outlives the engine.
    const World world{.communicator = std::shared_ptr<Communicator>(&rank, [](Communicator*) {}),
                      .rank = rank.rank(),
                      .size = rank.size()};
    Engine engine = initialize(models::gpt2(it.model), config, world);
    const at::Tensor tokens = at::zeros({1, kTokens}, at::kLong);
    for (int step = 0; step < 2; ++step) {
      const TrafficCounters before = rank.traffic();
      for (int64_t micro = 0; micro < it.accumulation; ++micro) {
        engine.backward(engine.forward(tokens, tokens));
        engine.step();
      }
      if (rank.rank() != 0) continue;
      const TrafficCounters after = rank.traffic();
      counted = {.sent_bytes = after.sent_bytes - before.sent_bytes,
                 .received_bytes = after.received_bytes - before.received_bytes,
                 .operations = after.operations - before.operations};
    }
  });
  return counted;
}

BenchRow measure(const Case& it) {
  const plan::Plan plan = engine::plan_for(models::gpt2(it.model), make_config(it), it.ranks);
  const TrafficCounters counted = measure_step(it);
  const auto parameters = static_cast<double>(plan.table.numel());
  const double all_reduce = 2 * parameters * kFloatBytes * (it.ranks - 1) / it.ranks;
  const double limit = it.stage < 3 ? 1.02 : 1.52;
  // A collective is a send to and a receive from every other rank; the control message is counted as one.
  const int64_t collectives = (counted.operations - 1) / (2 * (it.ranks - 1));
  // Units that do not fit a bucket's rest open the next one, so a bucket may lack the largest that is not cut.
  int64_t largest = 0;
  for (const plan::UnitLayout& layout : plan.layouts) largest = std::max(largest, layout.numel);
  const int64_t bucket =
      it.stage < 3 ? it.bucket_numel : std::min(it.bucket_numel, std::max(largest, plan::kSmallUnitsNumel));
  const int64_t filled = std::max(bucket - largest, bucket / 2);
  const int64_t needed = (it.stage < 3 ? 2 : 3) * ((plan.table.numel() + filled - 1) / filled + 1);
  return {{"name", "zero_comm"},
          {"stage", it.stage},
          {"ranks", it.ranks},
          {"layers", it.model.layers},
          {"width", it.model.width},
          {"vocab", it.model.vocabulary},
          {"accum", it.accumulation},
          {"bucket", it.bucket_numel},
          {"parameters", plan.table.numel()},
          {"sent_bytes", counted.sent_bytes},
          {"ratio", rounded(static_cast<double>(counted.sent_bytes) / all_reduce)},
          {"limit", limit},
          {"collectives", collectives},
          {"needed", needed}};
}

}  // namespace

std::vector<BenchRow> measure_zero_traffic(const ZeroTrafficOptions& options) {
  if (options.width % kHeads != 0)
    throw ConfigError(fmt::format("--width {}: give a multiple of {}, the number of heads", options.width, kHeads));
  at::set_num_threads(1);
  const models::Gpt2Options model{
      .layers = options.layers, .width = options.width, .heads = kHeads, .positions = 64, .vocabulary = kVocabulary};
  models::Gpt2Options small = model;
  small.layers = options.small_layers;
  small.width = kSmallWidth;
  models::Gpt2Options vocabulary = model;
  vocabulary.vocabulary = kLargeVocabulary;

  std::vector<BenchRow> rows;
  const int64_t default_bucket = 1'000'000;
  for (const int ranks : options.ranks) {
    for (const int64_t stage : {0, 1, 2, 3}) {
      const Case it{.model = model, .ranks = ranks, .stage = stage, .bucket_numel = default_bucket};
      for (const int64_t bucket : options.buckets) {
        Case with = it;
        with.bucket_numel = bucket;
        rows.push_back(measure(with));
      }
      if (stage < 3) {
        Case accumulated = it;
        accumulated.accumulation = 4;
        rows.push_back(measure(accumulated));
      }
      for (const models::Gpt2Options& other : {small, vocabulary}) {
        Case with = it;
        with.model = other;
        rows.push_back(measure(with));
      }
    }
  }
  return rows;
}

std::string zero_traffic_table(const std::vector<BenchRow>& rows) {
  std::vector<std::vector<std::string>> table{{"stage", "ranks", "layers", "width", "vocabulary", "accumulated",
                                               "bucket", "sent", "of an all-reduce", "limit", "collectives", "needed"}};
  for (const BenchRow& row : rows) {
    std::vector<std::string> cells;
    for (const char* key : {"stage", "ranks", "layers", "width", "vocab", "accum", "bucket"})
      cells.push_back(row.at(key).dump());
    cells.push_back(base::format_bytes(row.at("sent_bytes").get<int64_t>()));
    for (const char* key : {"ratio", "limit"}) cells.push_back(fmt::format("{:.4g}", row.at(key).get<double>()));
    for (const char* key : {"collectives", "needed"}) cells.push_back(row.at(key).dump());
    table.push_back(std::move(cells));
  }
  return to_columns(table);
}

}  // namespace lockstep::cli
