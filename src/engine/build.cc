// From values to objects: the only file, beside precision/mode.cc, that reads Config for the components.
#include <fmt/format.h>

#include "base/check.h"
#include "comm/agreement.h"
#include "engine/parts.h"
#include "lockstep/error.h"
#include "lockstep/launch.h"
#include "lr/table.h"
#include "model/weights.h"
#include "optim/table.h"
#include "precision/mode.h"
#include "tensor/elements.h"
#include "zero/parameter_table.h"

namespace lockstep {
namespace {

constexpr int64_t kDefaultBucketBytes = 4 * 1000 * 1000;  // On the wire; measured for a CPU over Gloo.

optim::OptimizerOptions optimizer_options(const OptimizerConfig& config) {
  const OptimizerParams& params = config.params;
  return {.beta1 = params.betas[0],
          .beta2 = params.betas[1],
          .epsilon = params.eps,
          .bias_correction = params.bias_correction,
          .adam_w_mode = params.adam_w_mode,
          .momentum = params.momentum,
          .dampening = params.dampening,
          .nesterov = params.nesterov,
          .alpha = params.alpha,
          .centered = params.centered};
}

lr::Warmup warmup_type(SchedulerParams::WarmupType type) {
  return type == SchedulerParams::WarmupType::log ? lr::Warmup::log : lr::Warmup::linear;
}

lr::ScheduleOptions schedule_options(const SchedulerConfig& config, bool optimizer_has_betas) {
  const SchedulerParams& p = config.params;
  if (config.type == "WarmupLR") {
    return lr::WarmupLrOptions{.min_lr = p.warmup_min_lr,
                               .max_lr = p.warmup_max_lr.empty() ? std::nullopt : std::optional(p.warmup_max_lr),
                               .num_steps = p.warmup_num_steps,
                               .type = warmup_type(p.warmup_type)};
  }
  if (config.type == "WarmupDecayLR") {
    lr::WarmupDecayLrOptions options{.total_num_steps = p.total_num_steps,
                                     .min_lr = p.warmup_min_lr,
                                     .num_steps = p.warmup_num_steps,
                                     .type = warmup_type(p.warmup_type)};
    if (!p.warmup_max_lr.empty()) options.max_lr = p.warmup_max_lr;
    return options;
  }
  if (config.type == "WarmupCosineLR") {
    return lr::WarmupCosineLrOptions{.total_num_steps = p.total_num_steps,
                                     .warmup_min_ratio = p.warmup_min_ratio,
                                     .cos_min_ratio = p.cos_min_ratio,
                                     .num_steps = p.warmup_num_steps,
                                     .type = warmup_type(p.warmup_type)};
  }
  if (config.type == "LRRangeTest") {
    return lr::LrRangeTestOptions{.min_lr = p.lr_range_test_min_lr,
                                  .step_size = p.lr_range_test_step_size,
                                  .step_rate = p.lr_range_test_step_rate,
                                  .staircase = p.lr_range_test_staircase};
  }
  if (config.type == "OneCycle") {
    return lr::OneCycleOptions{.min_lr = p.cycle_min_lr,
                               .max_lr = p.cycle_max_lr,
                               .decay_lr_rate = p.decay_lr_rate,
                               .first_step_size = p.cycle_first_step_size,
                               .second_step_size = p.cycle_second_step_size,
                               .first_stair_count = p.cycle_first_stair_count,
                               .second_stair_count = p.cycle_second_stair_count,
                               .decay_step_size = p.decay_step_size,
                               .cycle_momentum = p.cycle_momentum && optimizer_has_betas,
                               .min_momentum = p.cycle_min_mom.front(),
                               .max_momentum = p.cycle_max_mom.front(),
                               .decay_momentum_rate = p.decay_mom_rate};
  }
  LOCKSTEP_CHECK(config.type.empty());  // The config refuses what is not built.
  return lr::ConstantOptions{};
}

/// The only place that knows ZeRO's stage numbers.
plan::Sharding sharding(int64_t stage) {
  return {.optimizer = stage >= 1, .gradients = stage >= 2, .parameters = stage >= 3};
}

bool reduces_each_micro_batch(const Config& config) {
  using ReduceAt = LockstepConfig::ReduceAt;
  if (config.lockstep.reduce_at != ReduceAt::automatic) return config.lockstep.reduce_at == ReduceAt::micro_batch;
  return config.zero_optimization.stage >= 2;
}

tensor::HalfProducts half_products_here(const Config& config, DataType type) {
  using Key = LockstepConfig::HalfProducts;
  const Key key = config.lockstep.half_products;
  if (key == Key::automatic) return tensor::best_half_products(type);
  return key == Key::native ? tensor::HalfProducts::native : tensor::HalfProducts::widened;
}

zero::InitialValues initial_values(const std::string& weights_folder, const LayerStack& model) {
  if (weights_folder.empty()) return nullptr;
  auto weights = std::make_shared<const model::Weights>(model::load_weights(weights_folder));
  weights->check(model);
  return [weights](const std::string& name, const at::Tensor& into) {
    weights->copy_to(name, into);
    return true;
  };
}

}  // namespace

void engine::agree_on_half_products(Engine::Parts& parts, tensor::HalfProducts here) {
  const at::Tensor choice = at::full({1}, static_cast<int64_t>(here), at::kLong);
  parts.group->broadcast(choice, 0, "rank 0's choice of 16-bit products");
  parts.half_products = static_cast<tensor::HalfProducts>(choice.item<int64_t>());
}

plan::Plan engine::plan_for(const LayerStack& model, const Config& config, int world_size) {
  const auto rule = optim::make_optimizer(config.optimizer.type, optimizer_options(config.optimizer));
  const precision::Mode mode = precision::mode_of(config);
  const DataType weights = mode.weights;
  const DataType wire = config.communication_data_type.value_or(weights);
  const int64_t bucket_numel =
      config.zero_optimization.reduce_bucket_size.value_or(kDefaultBucketBytes / plan::bytes_of(wire));
  const int64_t gather_numel =
      config.zero_optimization.allgather_bucket_size.value_or(kDefaultBucketBytes / plan::bytes_of(weights));
  return plan::make_plan(zero::make_parameter_table(model, config.lockstep.no_decay),
                         {.world_size = world_size,
                          .accumulation = config.gradient_accumulation_steps,
                          .shard = sharding(config.zero_optimization.stage),
                          .reduce_each_micro_batch = reduces_each_micro_batch(config),
                          .bucket_numel = bucket_numel,
                          .gather_numel = gather_numel,
                          .max_live_numel = config.zero_optimization.stage3_max_live_parameters,
                          .sparse_gradients = config.sparse_gradients,
                          .weight_type = weights,
                          .master_weights = mode.master_weights,
                          .wire_type = wire,
                          .optimizer_states = static_cast<int64_t>(rule->state_names().size())});
}

Engine initialize(const LayerStack& model, const Config& config, const World& world, const EngineOptions& options) {
  if (config.world_size != world.communicator->size())
    throw ConfigError(
        fmt::format("the config was read for {} ranks and the world has {}; pass the world's size in "
                    "ParseOptions::world_size",
                    config.world_size, world.communicator->size()));
  if (config.optimizer.type.empty())
    throw ConfigError(
        "optimizer: the block is missing; name one, such as {\"type\": \"AdamW\", \"params\": {\"lr\": 1e-3}}");

  const precision::Mode mode = precision::mode_of(config);
  auto parts = std::make_unique<Engine::Parts>(Engine::Parts{
      .config = config,
      .log = options.log,
      .trace = options.trace,
      .seed = options.seed,
      .model = model,
      .group = world.communicator,
      .plan = engine::plan_for(model, config, world.communicator->size()),
      .scaler = precision::LossScaler(mode.scaler),
      .non_finite = precision::NonFinitePolicy(config.lockstep.max_skipped_steps),
  });
  Engine::Parts& p = *parts;
  if (mode.casts_inputs) p.input_type = tensor::scalar_type(mode.weights);
  if (mode.autocast) p.autocast_type = tensor::scalar_type(*mode.autocast);
  if (config.gradient_allreduce_op == Config::ReduceOp::sum) p.gradient_scale = p.group->size();
  comm::verify_agreement(*p.group, p.plan.hash(), "the plan (model, config and world size)");
  if (mode.product_type()) engine::agree_on_half_products(p, half_products_here(config, *mode.product_type()));

  p.rule = optim::make_optimizer(config.optimizer.type, optimizer_options(config.optimizer));
  const bool has_betas = config.optimizer.type == "Adam" || config.optimizer.type == "AdamW";
  auto groups = zero::make_groups(p.plan.table, config.optimizer.params.lr, config.optimizer.params.weight_decay);
  if (groups.empty()) throw ConfigError("the model has no parameter to train: all are frozen");
  p.schedule = lr::make_schedule(schedule_options(config.scheduler, has_betas), static_cast<int>(groups.size()));
  p.parameters = std::make_unique<zero::ParameterStore>(
      model, *p.group, p.plan,
      zero::GatherOptions{.prefetch_numel = config.zero_optimization.stage3_prefetch_bucket_size,
                          .max_live_numel = config.zero_optimization.stage3_max_live_parameters,
                          .trace = options.trace.get()},
      options.seed, initial_values(options.weights_folder, model));
  p.calls = std::make_unique<zero::UnitCalls>(*p.parameters, config.zero_optimization.stage3_max_live_parameters);
  p.optimizer =
      std::make_unique<zero::ShardedOptimizer>(*p.rule, p.plan, *p.parameters, p.group->rank(), std::move(groups));
  p.reducer = std::make_unique<zero::GradientReducer>(
      *p.group, p.plan, p.parameters->leaves(),
      zero::ReducerOptions{.overlap = config.zero_optimization.overlap_comm.value_or(true),
                           .trace = options.trace.get()});
  return Engine(std::move(parts));
}

}  // namespace lockstep
