// What may not stand together in a config, and what is likely a mistake.
#include <fmt/format.h>

#include <cmath>

#include "config/draft.h"
#include "lockstep/error.h"
#include "lockstep/log.h"

namespace lockstep::config {
namespace {

constexpr const char* kZero = "zero_optimization.";

std::string zero(const char* name) { return std::string(kZero) + name; }

bool named(const std::string& type, const char* list) { return holds_word(list, type); }

/// A block's "enabled" in its text, at any depth or only the outermost.
bool text_says(const Config& c, std::string_view block, std::string_view member) {
  const auto found = c.blocks.find(block);
  return found != c.blocks.end() && found->second.find(member) != std::string::npos;
}

bool deep_compile(const Config& c) { return text_says(c, "compile", "\"deepcompile\": true"); }

void check_amp(Draft& draft) {
  const AmpConfig& amp = draft.config.amp;
  using Backend = AmpConfig::Backend;
  if (amp.opt_level && !named(*amp.opt_level, "O0 O1 O2 O3"))
    draft.problem("amp.opt_level", "not a level; write \"O0\", \"O1\", \"O2\" or \"O3\"");
  if (!amp.enabled) return;
  if (amp.opt_level && amp.fp16_backend == Backend::torch)
    draft.problem("amp.opt_level", "Apex's, while fp16_backend is \"torch\"; remove one of them");
  const bool apex = amp.fp16_backend == Backend::apex || amp.opt_level.has_value();
  const std::string level = apex ? amp.opt_level.value_or("O1") : "";
  const auto useless = [&](const char* key, bool used, std::string_view with) {
    const std::string path = std::string("amp.") + key;
    if (!used && draft.valued(path)) draft.warning(path, fmt::format("changes nothing with {}; remove it", with));
  };
  const bool scales = apex && level != "O0";
  const std::string here = apex ? "opt_level " + level : "fp16_backend torch";
  for (const char* key : {"loss_scale", "min_loss_scale", "max_loss_scale"}) useless(key, scales, here);
  for (const char* key : {"master_weights", "keep_batchnorm_fp32"}) useless(key, level == "O2" || level == "O3", here);
  if (scales && amp.min_loss_scale && *amp.min_loss_scale > amp.max_loss_scale)
    draft.problem("amp.min_loss_scale", "above max_loss_scale; swap the two");
}

void check_precision(Draft& draft) {
  const Config& c = draft.config;
  struct Mode {
    const char* block;
    bool on;
  };
  const std::array modes{Mode{"fp16", c.fp16.enabled}, Mode{"bf16", c.bf16.enabled},
                         Mode{"torch_autocast", c.torch_autocast.enabled}, Mode{"amp", c.amp.enabled}};
  const char* first = nullptr;
  for (const Mode& mode : modes) {
    if (!mode.on) continue;
    if (first != nullptr) {
      draft.problem(fmt::format("{}.enabled", mode.block),
                    fmt::format("{} and {} exclude each other; switch one off", first, mode.block));
    } else {
      first = mode.block;
    }
  }
  const int64_t stage = c.zero_optimization.stage;
  if (c.amp.enabled && stage > 0) {
    draft.problem("amp.enabled",
                  fmt::format("amp does not go with zero_optimization.stage {}; use fp16 or torch_autocast", stage));
  }
  check_amp(draft);

  if (c.torch_autocast.enabled && !draft.failed("torch_autocast.dtype")) {
    const std::optional<DataType> type = c.torch_autocast.dtype;
    if (!type) {
      draft.problem("torch_autocast.dtype", "required by torch_autocast; write \"bf16\" or \"fp16\"");
    } else if (type != DataType::bf16 && type != DataType::fp16) {
      draft.problem("torch_autocast.dtype", "autocast computes in 16 bits; write \"bf16\" or \"fp16\"");
    }
    if (c.zero_optimization.zero_quantized_weights)
      draft.problem(zero("zero_quantized_weights"), "does not go with torch_autocast; switch one off");
  }

  const bool cpu_adam =
      c.zero_optimization.offload_optimizer.device != OffloadDevice::none && named(c.optimizer.type, "Adam AdamW");
  const auto check_masters = [&](const char* path, bool on, bool excused) {
    if (!on) return;
    if (stage == 0)
      draft.problem(path, "needs ZeRO; write \"zero_optimization\": {\"stage\": 1} or higher, or switch it off");
    if (!cpu_adam && !excused) {
      draft.problem(path,
                    "needs Adam or AdamW with zero_optimization.offload_optimizer.device \"cpu\"; write that, or "
                    "switch it off");
    }
  };
  check_masters("fp16.fp16_master_weights_and_grads", c.fp16.enabled && c.fp16.fp16_master_weights_and_grads, false);
  check_masters("bf16.bf16_master_weights_and_grads", c.bf16.enabled && c.bf16.bf16_master_weights_and_grads,
                c.bf16.bf16_optimizer_states);
  if (c.bf16.enabled && c.bf16.bf16_optimizer_states && !c.bf16.bf16_master_weights_and_grads)
    draft.problem("bf16.bf16_optimizer_states", "needs bf16_master_weights_and_grads; write that as true too");
  if (c.bf16.enabled && !c.bf16.check_grad_overflow) {
    draft.problem("bf16.check_grad_overflow",
                  "steps with non-finite gradients are skipped in every mode; write true, or remove the key");
  }
  if (c.fp16.enabled && c.fp16.loss_scale > 0) {
    draft.notice("fp16.loss_scale", "static: a scale above 0 never changes (0 is dynamic)");
    if (draft.valued("fp16.initial_scale_power"))
      draft.warning("fp16.initial_scale_power", "changes nothing: loss_scale above 0 is static; write loss_scale 0");
  } else if (c.fp16.enabled && c.fp16.min_loss_scale > std::ldexp(1.0, static_cast<int>(c.fp16.initial_scale_power))) {
    draft.problem("fp16.min_loss_scale", "above the first scale, 2^initial_scale_power; lower it, or raise the power");
  }
  const std::optional<DataType> parameters = c.data_types.param_dtype;
  const DataType mode = c.fp16.enabled ? DataType::fp16 : c.bf16.enabled ? DataType::bf16 : DataType::fp32;
  if (parameters && *parameters != mode)
    draft.problem("data_types.param_dtype",
                  "differs from the precision mode's type; remove it, or switch that mode on");
}

void check_gradients(Draft& draft) {
  const Config& c = draft.config;
  const int64_t stage = c.zero_optimization.stage;
  if (c.gradient_allreduce_op == Config::ReduceOp::sum) {
    const char* other = stage == 3                     ? "zero_optimization.stage 3"
                        : draft.given(zero("zenflow")) ? "zenflow"
                        : deep_compile(c)              ? "compile.deepcompile"
                                                       : nullptr;
    if (other != nullptr)
      draft.problem("gradient_allreduce_op", fmt::format("\"sum\" does not go with {}; write \"mean\"", other));
  }
  if (c.communication_data_type == DataType::int8)
    draft.problem("communication_data_type", "gradients do not fit into int8; write \"fp32\", \"bf16\" or \"fp16\"");
  if (c.sparse_gradients && stage > 0)
    draft.problem("sparse_gradients", fmt::format("needs stage 0, this file's stage is {}; switch one off", stage));
  if (!c.managed_gradient_accumulation) {
    const char* other = c.pipeline.enabled.value_or(false) ? "pipeline.enabled"
                        : c.amp.enabled                    ? "amp.enabled"
                        : deep_compile(c)                  ? "compile.deepcompile"
                                                           : nullptr;
    if (other != nullptr)
      draft.problem("managed_gradient_accumulation", fmt::format("false does not go with {}; write true", other));
  }
}

void check_optimizer(Draft& draft) {
  const Config& c = draft.config;
  const OptimizerParams& p = c.optimizer.params;
  const std::string& type = c.optimizer.type;
  if (draft.given("optimizer") && !draft.failed("optimizer") && type.empty() && !draft.failed("optimizer.type"))
    draft.problem("optimizer.type", "missing; write such as \"type\": \"AdamW\", or remove the block");
  if (p.nesterov && (p.momentum <= 0 || p.dampening != 0)) {
    draft.problem("optimizer.params.nesterov", "needs momentum above 0 and dampening 0; write these, or false");
  }
  if (p.min_coeff > p.max_coeff) draft.problem("optimizer.params.min_coeff", "above max_coeff; swap the two");
  if (p.factor_min > p.factor_max) draft.problem("optimizer.params.factor_min", "above factor_max; swap the two");
  if (!named(p.ns_method, "gram standard"))
    draft.problem("optimizer.params.ns_method", "not a method; write \"gram\" or \"standard\"");
  if (type == "AdamW" && !p.adam_w_mode) {
    draft.notice("optimizer.params.adam_w_mode",
                 "changes nothing: AdamW's decay is always decoupled; for L2 write type \"Adam\"");
  }
  if (type == "Adam" && p.weight_decay > 0 && !draft.valued("optimizer.params.adam_w_mode")) {
    draft.notice("optimizer.type",
                 "Adam decays apart from the gradient, as AdamW does; for L2 write \"adam_w_mode\": false");
  }
  if (c.fp16.enabled && c.fp16.loss_scale > 0 && named(type, "Lamb OneBitLamb"))
    draft.problem("fp16.loss_scale", fmt::format("{} needs dynamic scaling; write 0", type));
  const ZeroConfig& z = c.zero_optimization;
  if (type == "Muon" && z.stage == 0)
    draft.problem("optimizer.type", "Muon needs zero_optimization.stage 1 or higher; write that, or another type");
  if (type == "Muon" && z.stage == 3 && z.reduce_scatter)
    draft.problem("optimizer.type",
                  "Muon at stage 3 needs whole gradients; write zero_optimization.reduce_scatter false");
}

void check_pair(Draft& draft, const char* low_name, const PerGroup& low, const char* high_name, const PerGroup& high) {
  const std::string prefix = "scheduler.params.";
  if (low.size() > 1 && high.size() > 1 && low.size() != high.size()) {
    draft.problem(prefix + low_name, fmt::format("{} values beside {} of {}; write one per parameter group in both",
                                                 low.size(), high.size(), high_name));
    return;
  }
  if (low.empty() || high.empty()) return;
  for (size_t i = 0; i < std::max(low.size(), high.size()); ++i) {
    if (low[low.size() > 1 ? i : 0] > high[high.size() > 1 ? i : 0]) {
      draft.problem(prefix + low_name, fmt::format("above {}; swap the two", high_name));
      return;
    }
  }
}

void check_scheduler(Draft& draft) {
  const Config& c = draft.config;
  const SchedulerParams& p = c.scheduler.params;
  const std::string& type = c.scheduler.type;
  if (!draft.given("scheduler") || draft.failed("scheduler") || draft.failed("scheduler.type")) return;
  if (type.empty()) {
    draft.problem("scheduler.type", "missing; write such as \"type\": \"WarmupLR\", or remove the block");
    return;
  }
  if (!draft.given("optimizer"))
    draft.problem("scheduler", "a schedule without an optimizer; write an \"optimizer\" block, or remove this one");
  const auto require = [&](const char* name) {
    const std::string path = std::string("scheduler.params.") + name;
    if (!draft.given(path) ||
        (!draft.valued(path) && !draft.failed(path) && !draft.config.reading.origins.contains(path)))
      draft.problem(path, fmt::format("required by {}; write it", type));
  };
  if (named(type, "WarmupDecayLR WarmupCosineLR")) {
    require("total_num_steps");
    if (draft.given("scheduler.params.total_num_steps") && !draft.failed("scheduler.params.total_num_steps") &&
        p.total_num_steps > 0 && p.total_num_steps <= p.warmup_num_steps) {
      draft.problem("scheduler.params.total_num_steps",
                    fmt::format("{} steps do not reach past the warm-up's {}; write a larger number, or a smaller "
                                "warmup_num_steps",
                                p.total_num_steps, p.warmup_num_steps));
    }
  }
  if (type == "OneCycle") {
    require("cycle_min_lr");
    require("cycle_max_lr");
    check_pair(draft, "cycle_min_lr", p.cycle_min_lr, "cycle_max_lr", p.cycle_max_lr);
    check_pair(draft, "cycle_min_mom", p.cycle_min_mom, "cycle_max_mom", p.cycle_max_mom);
    for (const auto& [name, list] :
         {std::pair{"cycle_min_mom", &p.cycle_min_mom}, {"cycle_max_mom", &p.cycle_max_mom}}) {
      if (list->size() > 1)
        draft.problem(std::string("scheduler.params.") + name, "one momentum serves all groups; write one number");
    }
    if (p.cycle_momentum && draft.valued("optimizer.params.betas"))
      draft.warning("scheduler.params.cycle_momentum",
                    "replaces optimizer.params.betas: the first is cycled, the second is 0.99");
    if (p.cycle_momentum && named(c.optimizer.type, "SGD Adagrad RMSprop"))
      draft.notice("scheduler.type", fmt::format("cycle_momentum changes nothing: {} has no betas", c.optimizer.type));
  }
  if (named(type, "WarmupLR WarmupDecayLR"))
    check_pair(draft, "warmup_min_lr", p.warmup_min_lr, "warmup_max_lr", p.warmup_max_lr);
}

void check_zero(Draft& draft) {
  const Config& c = draft.config;
  const ZeroConfig& z = c.zero_optimization;
  const OffloadOptimizerConfig& offload = z.offload_optimizer;
  if (z.offload_param.device != OffloadDevice::none && z.stage < 3)
    draft.warning(zero("offload_param"),
                  fmt::format("changes nothing at stage {}: parameters are sharded at stage 3 only", z.stage));
  if (offload.device != OffloadDevice::none && z.stage == 0)
    draft.problem(zero("offload_optimizer"),
                  "needs stage 1-3, this file's stage is 0; write a stage, or device \"none\"");
  for (const auto& [name, device, path] :
       {std::tuple{"offload_param", z.offload_param.device, &z.offload_param.nvme_path},
        {"offload_optimizer", offload.device, &offload.nvme_path}}) {
    const std::string key = zero(name) + ".nvme_path";
    if (device == OffloadDevice::nvme && path->value_or("").empty() && !draft.failed(key))
      draft.problem(key, "required by device \"nvme\"; write a folder on that disk");
  }
  if (offload.device == OffloadDevice::nvme && named(c.optimizer.type, "Adam AdamW")) {
    const int64_t least = offload.pipeline_read || offload.pipeline_write ? 8 : 4;
    if (offload.buffer_count < least) {
      draft.problem(zero("offload_optimizer.buffer_count"),
                    fmt::format("{} buffers are too few for {}{}; write {} or more", offload.buffer_count,
                                c.optimizer.type, least == 8 ? " with pipeline_read or pipeline_write" : "", least));
    }
  }
  if (offload.ratio < 1 && z.stage < 3)
    draft.problem(zero("offload_optimizer.ratio"),
                  fmt::format("below 1 needs stage 3, this file's stage is {}; write 1", z.stage));
  const bool adam = c.optimizer.type.empty() || named(c.optimizer.type, "Adam AdamW");
  if ((offload.ratio < 1 || offload.super_offload) && !adam) {
    draft.problem(zero(offload.ratio < 1 ? "offload_optimizer.ratio" : "offload_optimizer.super_offload"),
                  fmt::format("needs Adam or AdamW, not {}; write ratio 1 and super_offload false", c.optimizer.type));
  }
  if (z.allgather_bucket_size && *z.allgather_bucket_size % 2 != 0)
    draft.problem(zero("allgather_bucket_size"),
                  fmt::format("{} is odd; write {}", *z.allgather_bucket_size, *z.allgather_bucket_size + 1));
  if (z.mics_shard_size == 0)
    draft.problem(zero("mics_shard_size"), "0 ranks; write -1 for off, or a divisor of the replicas");
  const auto check_divides = [&](const char* name, int64_t value) {
    if (value < 1 || z.stage < 3 || !draft.options.world_size || c.replicas % value == 0) return;
    draft.problem(zero(name), fmt::format("{} does not divide the {} replicas; write a divisor", value, c.replicas));
  };
  check_divides("mics_shard_size", z.mics_shard_size);
  check_divides("zero_hpz_partition_size", z.zero_hpz_partition_size);
  if (z.stage == 3 && z.elastic_checkpoint)
    draft.problem(zero("elastic_checkpoint"),
                  "does not go with stage 3; remove it: every checkpoint loads at any world size");
  if (draft.given(zero("zenflow"))) {
    if (offload.device != OffloadDevice::cpu)
      draft.problem(zero("zenflow"), "needs offload_optimizer.device \"cpu\"; write that, or remove the block");
    if (z.zenflow.select_interval && z.zenflow.update_interval &&
        *z.zenflow.select_interval < *z.zenflow.update_interval)
      draft.problem(zero("zenflow.select_interval"), "below update_interval; write that or more");
  }
}

void check_running(Draft& draft) {
  const Config& c = draft.config;
  if (c.log_level) {
    try {
      (void)parse_log_level(*c.log_level);
    } catch (const ConfigError&) {
      draft.problem("log_level", fmt::format("\"{}\" is no level; write \"debug\", \"info\", \"warning\", \"error\", "
                                             "\"critical\" or \"off\"",
                                             *c.log_level));
    }
  }
  const CheckpointConfig& save = c.checkpoint;
  if (save.enabled && save.path.value_or("").empty() && !draft.failed("checkpoint.path"))
    draft.problem("checkpoint.path", "required when checkpoint.enabled is true; write a folder");
  if (save.prefix && (save.prefix->empty() || save.prefix->find('/') != std::string::npos))
    draft.problem("checkpoint.prefix", "a prefix is the start of a folder's name; write text without a slash");

  const ElasticityConfig& elastic = c.elasticity;
  if (elastic.enabled && !elastic.ignore_non_elastic_batch_info) {
    for (const char* key : {"train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps"}) {
      if (draft.valued(key))
        draft.problem(
            key,
            "elasticity chooses the batch; remove this key, or write elasticity.ignore_non_elastic_batch_info true");
    }
  }
  if (elastic.min_gpus > elastic.max_gpus) draft.problem("elasticity.min_gpus", "above max_gpus; swap the two");
  if (c.pipeline.enabled.value_or(false)) {
    if (elastic.enabled && elastic.version < 0.2)
      draft.problem("elasticity.version", "below 0.2 elasticity knows no pipelines; write 0.2");
    const int64_t stages = c.pipeline.stages.value_or(1);
    if (c.gradient_accumulation_steps < stages) {
      draft.warning("pipeline.stages", fmt::format("{} micro-batches leave some of the {} stages idle; raise "
                                                   "gradient_accumulation_steps",
                                                   c.gradient_accumulation_steps, stages));
    }
  }
}

}  // namespace

void check_rules(Draft& draft) {
  check_precision(draft);
  check_gradients(draft);
  check_optimizer(draft);
  check_scheduler(draft);
  check_zero(draft);
  check_running(draft);
}

}  // namespace lockstep::config
