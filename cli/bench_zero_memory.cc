#include "bench_zero_memory.h"

#include <ATen/Parallel.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/units.h"
#include "engine/parts.h"
#include "lockstep/config.h"
#include "lockstep/engine.h"
#include "lockstep/error.h"
#include "lockstep/launch.h"
#include "lockstep/models.h"
#include "tensor/cpu_allocator.h"

namespace lockstep::cli {
namespace {

constexpr int64_t kStages = 4;
constexpr int64_t kHeads = 4;
constexpr int64_t kTokens = 2;  // Activations do not count as state, and their share of a peak shrinks with the tokens.

LayerStack make_model(int64_t layers, int64_t width, int64_t vocabulary) {
  return models::gpt2({.layers = layers, .width = width, .heads = kHeads, .positions = 64, .vocabulary = vocabulary});
}

/// The config of a stage.
struct Variant {
  int64_t stage = 0;
  bool overlap = false;
  std::string precision{};
};

Config make_config(const Variant& variant, int ranks) {
  const nlohmann::json text{{"train_micro_batch_size_per_gpu", 1},
                            {"optimizer", {{"type", "AdamW"}, {"params", {{"lr", 1e-3}, {"weight_decay", 0.01}}}}},
                            {"gradient_clipping", 1.0},
                            {"zero_optimization", {{"stage", variant.stage}, {"overlap_comm", variant.overlap}}},
                            {"fp16", {{"enabled", variant.precision == "fp16"}}},
                            {"bf16", {{"enabled", variant.precision == "bf16"}}}};
  return Config::from_text(text.dump(), "the benchmark's config", {.world_size = ranks});
}

/// Bytes of tensors on the rank that held most.
struct Held {
  int64_t between_steps = 0;
  int64_t state = 0;  ///< After backward: gradients are there, activations are gone.
  int64_t peak = 0;   ///< Within a step.
};

Held largest(Communicator& group, const Held& mine) {
  std::vector<Held> all(static_cast<size_t>(group.size()));
  group.all_gather_records(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)),
                           "the bytes of a rank");
  Held most;
  for (const Held& rank : all) {
    most.between_steps = std::max(most.between_steps, rank.between_steps);
    most.state = std::max(most.state, rank.state);
    most.peak = std::max(most.peak, rank.peak);
  }
  return most;
}

/// One step after one that is not measured.  `before`: what tensors held without the engine.
Held measure_step(Engine& engine, int64_t before) {
  const at::Tensor tokens = at::zeros({1, kTokens}, at::kLong);
  Held held;
  for (int step = 0; step < 2; ++step) {
    tensor::reset_peak_bytes();
    engine.backward(engine.forward(tokens, tokens));
    held.state = tensor::current_bytes() - before;
    engine.step();
    held.peak = tensor::peak_bytes() - before;
    held.between_steps = tensor::current_bytes() - before;
  }
  return held;
}

BenchRow measure_slope(const World& world, int64_t stage, const ZeroMemoryOptions& options) {
  const int ranks = world.communicator->size();
  std::vector<int64_t> parameters;
  std::array<std::vector<int64_t>, 3> bytes;
  for (const int64_t layers : options.layers) {
    const int64_t before = tensor::current_bytes();
    // Without overlap the bytes repeat exactly: a bucket more or less under way would hide in them.
    Engine engine = initialize(make_model(layers, options.width, 256),
                               make_config({stage, false, options.precision}, ranks), world);
    const Held held = largest(*world.communicator, measure_step(engine, before));
    parameters.push_back(engine.parameter_count());
    bytes[0].push_back(held.between_steps);
    bytes[1].push_back(held.state);
    bytes[2].push_back(held.peak);
  }
  const ZeroState state{.stage = stage, .half = options.precision != "fp32"};
  const double limit = state.limit(ranks);
  const double peak = bytes_per_parameter(parameters, bytes[2]);
  return {{"name", "zero_mem"},
          {"stage", stage},
          {"ranks", ranks},
          {"precision", options.precision},
          {"width", options.width},
          {"layers", fmt::format("{}", fmt::join(options.layers, ","))},
          {"formula", state.formula()},
          {"limit", rounded(limit)},
          {"between_steps", rounded(bytes_per_parameter(parameters, bytes[0]))},
          {"after_backward", rounded(bytes_per_parameter(parameters, bytes[1]))},
          {"peak", rounded(peak)},
          {"ratio", rounded(peak / limit)}};
}

BenchRow measure_building(const World& world, const std::string& precision) {
  const int ranks = world.communicator->size();
  const LayerStack model = make_model(/*layers=*/12, /*width=*/512, /*vocabulary=*/4096);
  const Config config = make_config({.stage = 3, .overlap = true, .precision = precision}, ranks);
  const plan::Plan plan = engine::plan_for(model, config, ranks);
  const int64_t before = tensor::current_bytes();
  tensor::reset_peak_bytes();
  Engine engine = initialize(model, config, world);
  const int64_t built = tensor::peak_bytes() - before;
  const Held held = measure_step(engine, before);

  const int64_t weight_bytes = plan::bytes_of(plan.options.weight_type);
  int64_t layer = 0;
  for (const plan::UnitLayout& layout : plan.layouts) layer = std::max(layer, layout.numel * weight_bytes);
  int64_t bucket = 0;
  for (const plan::Bucket& it : plan.buckets) bucket = std::max(bucket, it.slice_numel * ranks * weight_bytes);
  const int64_t share = plan.memory.parameters + plan.memory.gradients + plan.memory.optimizer;
  const Held most = largest(*world.communicator, {.state = built, .peak = held.peak});
  return {{"name", "zero_mem_build"},
          {"stage", 3},
          {"ranks", ranks},
          {"precision", precision},
          {"parameters", plan.table.numel()},
          {"share_bytes", share},
          {"layer_bytes", layer},
          {"bucket_bytes", bucket},
          {"build_limit_bytes", share + layer + bucket},
          {"build_peak_bytes", most.state},
          {"build_ratio", rounded(static_cast<double>(most.state) / static_cast<double>(share + layer + bucket))},
          {"step_plan_bytes", plan.memory.total()},
          {"step_peak_bytes", most.peak},
          {"step_ratio", rounded(static_cast<double>(most.peak) / static_cast<double>(plan.memory.total()))}};
}

}  // namespace

double ZeroState::limit(int ranks) const {
  // Weights, gradients, and what the update needs beside them, each of which a stage shares out or not.
  const auto held = [&](double bytes, int64_t from_stage) { return stage >= from_stage ? bytes / ranks : bytes; };
  return half ? held(2, 3) + held(2, 2) + held(12, 1) : held(4, 3) + held(4, 2) + held(8, 1);
}

std::string ZeroState::formula() const {
  static constexpr std::array<const char*, kStages> kFormulas{"16", "8+8/N", "4+12/N", "16/N"};
  static constexpr std::array<const char*, kStages> kHalfFormulas{"16", "4+12/N", "2+14/N", "16/N"};
  return (half ? kHalfFormulas : kFormulas).at(static_cast<size_t>(stage));
}

double bytes_per_parameter(const std::vector<int64_t>& parameters, const std::vector<int64_t>& bytes) {
  const auto mean = [](const std::vector<int64_t>& values) {
    return static_cast<double>(std::accumulate(values.begin(), values.end(), int64_t{0})) /
           static_cast<double>(values.size());
  };
  const double mean_parameters = mean(parameters);
  const double mean_bytes = mean(bytes);
  double covariance = 0;
  double variance = 0;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const double distance = static_cast<double>(parameters[i]) - mean_parameters;
    covariance += distance * (static_cast<double>(bytes[i]) - mean_bytes);
    variance += distance * distance;
  }
  return covariance / variance;
}

std::vector<BenchRow> measure_zero_memory(const World& world, const ZeroMemoryOptions& options) {
  // Two layers are whole at once at stage 3: a single one has another constant.
  const std::vector<int64_t>& layers = options.layers;
  if (layers.size() < 2 || layers.front() < 2 || !std::ranges::is_sorted(layers, std::less_equal<>()))
    throw ConfigError(fmt::format("--layers {}: expected two or more depths from 2 on, ascending, such as 2,4,6",
                                  fmt::join(layers, ",")));
  if (options.width % kHeads != 0)
    throw ConfigError(fmt::format("--width {}: give a multiple of {}, the number of heads", options.width, kHeads));
  at::set_num_threads(1);
  std::vector<BenchRow> rows;
  for (int64_t stage = 0; stage < kStages; ++stage) rows.push_back(measure_slope(world, stage, options));
  if (world.communicator->size() > 1) rows.push_back(measure_building(world, options.precision));
  return rows;
}

std::string zero_memory_tables(const std::vector<BenchRow>& rows) {
  std::vector<std::vector<std::string>> slopes{{"stage", "ranks", "precision", "formula", "bytes a parameter",
                                                "between steps", "after backward", "peak", "peak / formula"}};
  std::vector<std::vector<std::string>> building{{"stage 3 of", "ranks", "what", "predicted", "measured", "ratio"}};
  const auto number = [](const BenchRow& row, const char* key) {
    return fmt::format("{:.4g}", row.at(key).get<double>());
  };
  const auto bytes = [](const BenchRow& row, const char* key) {
    return base::format_bytes(row.at(key).get<int64_t>());
  };
  for (const BenchRow& row : rows) {
    if (row.at("name") == "zero_mem") {
      slopes.push_back({row.at("stage").dump(), row.at("ranks").dump(), row.at("precision").get<std::string>(),
                        row.at("formula").get<std::string>(), number(row, "limit"), number(row, "between_steps"),
                        number(row, "after_backward"), number(row, "peak"), number(row, "ratio")});
      continue;
    }
    const std::string parameters = base::format_count(row.at("parameters").get<int64_t>());
    building.push_back({parameters, row.at("ranks").dump(), "building: share + one layer + one bucket",
                        bytes(row, "build_limit_bytes"), bytes(row, "build_peak_bytes"), number(row, "build_ratio")});
    building.push_back({parameters, row.at("ranks").dump(), "a step: as the plan says", bytes(row, "step_plan_bytes"),
                        bytes(row, "step_peak_bytes"), number(row, "step_ratio")});
  }
  return to_columns(slopes) + (building.size() > 1 ? "\n" + to_columns(building) : "");
}

}  // namespace lockstep::cli
