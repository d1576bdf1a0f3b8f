#include "bench_train.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>

#include "bench_flops.h"
#include "bench_roof.h"
#include "bench_timing.h"
#include "comm/local/local_group.h"
#include "kernels/simd.h"
#include "lockstep/config.h"
#include "lockstep/data.h"
#include "lockstep/engine.h"
#include "lockstep/error.h"
#include "lockstep/launch.h"
#include "lockstep/models.h"
#include "monitor/memory.h"
#include "tensor/cpu_allocator.h"

namespace lockstep::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kSteadyRoof = 0.10;  // A roof that moved by more makes the fraction worthless.

/// Tokens that look drawn at random, the same for every run.
class RandomTokens final : public TokenSource {
 public:
  explicit RandomTokens(int64_t vocabulary) : vocabulary_(vocabulary) {}

  [[nodiscard]] int64_t size() const override { return 1 << 20; }
  void read(int64_t offset, std::span<int64_t> into) const override {
    for (size_t i = 0; i < into.size(); ++i)
      into[i] = static_cast<int64_t>(mixed(static_cast<uint64_t>(offset) + i) % static_cast<uint64_t>(vocabulary_));
  }
  [[nodiscard]] int64_t vocabulary() const override { return vocabulary_; }
  [[nodiscard]] std::string name() const override { return "random tokens"; }

 private:
  static uint64_t mixed(uint64_t x) {  // splitmix64
    x += 0x9e3779b97f4a7c15;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
  }

  const int64_t vocabulary_;
};

bool is_nano(const TrainBenchOptions& options) { return options.model == "gpt2-nano"; }

LayerStack make_model(const TrainBenchOptions& options) {
  if (!is_nano(options)) return models::from_preset_or_folder(options.model);
  return models::gpt2({.layers = options.layers,
                       .width = options.width,
                       .heads = options.heads,
                       .positions = options.sequence_length > 0 ? options.sequence_length : 256,
                       .vocabulary = options.vocabulary});
}

Config make_config(const TrainBenchOptions& options) {
  const nlohmann::json text{
      {"train_micro_batch_size_per_gpu", options.micro_batch},
      {"gradient_accumulation_steps", options.accumulation},
      {"optimizer", {{"type", "AdamW"}, {"params", {{"lr", 1e-3}, {"weight_decay", 0.01}}}}},
      {"gradient_clipping", 1.0},
      {"zero_optimization", {{"stage", 0}}},
      {"fp16", {{"enabled", options.precision == "fp16"}}},
      {"bf16", {{"enabled", options.precision == "bf16"}}},
      {"lockstep", {{"half_products", options.products}}},
  };
  return Config::from_text(text.dump(), "the benchmark's config", {.world_size = 1});
}

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// Page faults of this process so far.
int64_t page_faults() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt + usage.ru_majflt;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace

std::vector<BenchRow> measure_training(const TrainBenchOptions& options) {
  at::set_num_threads(options.threads > 0 ? options.threads
                                          : std::max<int>(1, static_cast<int>(allowed_cpus().size())));
  const LayerStack model = make_model(options);
  const int64_t length = options.sequence_length > 0 ? options.sequence_length : model.max_sequence;
  if (length <= 0) throw ConfigError("bench train: the model has no maximum sequence length of its own; add --seq");
  if (model.max_sequence > 0 && length > model.max_sequence)
    throw ConfigError(
        fmt::format("--seq {}: {} takes at most {} positions; give fewer", length, options.model, model.max_sequence));
  const Config config = make_config(options);
  const Clock::time_point start = Clock::now();
  // Always one rank, whatever launcher's variables are set.
  const World world{.communicator = std::move(comm::local_group(1).front())};
  Engine engine = initialize(model, config, world, {.seed = 1});
  const double build_s = seconds_since(start);
  const Loader loader(std::make_shared<RandomTokens>(model.vocabulary), {.sequence_length = length,
                                                                         .micro_batch = options.micro_batch,
                                                                         .shuffle = true,
                                                                         .model_vocabulary = model.vocabulary});

  double loss = 0;
  double first_step_s = 0;
  for (int64_t i = 0; i < options.warm_up; ++i) {
    loss = engine.train_batch(loader).loss;
    if (i == 0) first_step_s = seconds_since(start) - build_s;
  }
  const double first_loss = loss;

  const auto roof = [&] { return matrix_product_rate(ProductType::fp32, options.quick ? 1024 : 2048, 3); };
  const double roof_before = roof();
  const int64_t faults_before = page_faults();
  std::vector<double> seconds;
  Clock::time_point last = Clock::now();
  const Clock::time_point first = last;
  for (int64_t i = 0; i < options.steps; ++i) {
    loss = engine.train_batch(loader).loss;
    const Clock::time_point now = Clock::now();
    seconds.push_back(std::chrono::duration<double>(now - last).count());
    last = now;
  }
  const double total_s = std::chrono::duration<double>(last - first).count();
  const int64_t faults = page_faults() - faults_before;
  const double roof_after = roof();

  const double flops = step_flops(model, options.micro_batch * options.accumulation, length);
  const auto tokens = static_cast<double>(options.micro_batch * options.accumulation * length);
  const double roof_rate = std::max(roof_before, roof_after);
  const double step_s = median(seconds);
  BenchRow row{{"name", "train"}, {"model", options.model}};
  if (is_nano(options))
    row.update({{"layers", options.layers},
                {"width", options.width},
                {"heads", options.heads},
                {"vocab", options.vocabulary}});
  row["precision"] = options.precision;
  if (options.precision != "fp32") row["products"] = options.products;
  row["parameters"] = engine.parameter_count();
  row["seq"] = length;
  row["micro"] = options.micro_batch;
  row["accum"] = options.accumulation;
  row["threads"] = at::get_num_threads();
  row["steps"] = options.steps;
  row["tokens_per_s"] = rounded(tokens * static_cast<double>(options.steps) / total_s);
  row["ms_step"] = rounded(step_s * 1e3);
  row["ms_step_min"] = rounded(std::ranges::min(seconds) * 1e3);
  row["ms_step_max"] = rounded(std::ranges::max(seconds) * 1e3);
  row["gflop_step"] = rounded(flops / 1e9);
  row["GFLOPs"] = rounded(flops / step_s / 1e9);
  row["frac"] = rounded(flops / step_s / roof_rate);
  row["roof_GFLOPs"] = rounded(roof_rate / 1e9);
  row["roof_before"] = rounded(roof_before / 1e9);
  row["roof_after"] = rounded(roof_after / 1e9);
  row["steady"] = std::abs(roof_after - roof_before) <= kSteadyRoof * roof_rate;
  row["peak_bytes"] = tensor::peak_bytes();
  row["peak_rss_bytes"] = monitor::peak_rss_bytes();
  row["faults_step"] = rounded(static_cast<double>(faults) / static_cast<double>(options.steps));
  row["build_s"] = rounded(build_s);
  row["first_step_s"] = rounded(first_step_s);
  row["first_loss"] = rounded(first_loss);
  row["last_loss"] = rounded(loss);
  row["isa"] = kernels::simd_level();
  return {row};
}

}  // namespace lockstep::cli
