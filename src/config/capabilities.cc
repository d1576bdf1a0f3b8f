// What is declared, read and checked, but not yet built.  A key is refused only where it is switched on.  Whoever
// builds a capability deletes its rows.
#include <fmt/format.h>

#include "config/draft.h"

namespace lockstep::config {
namespace {

struct Capability {
  const char* path;
  const char* name;
  const char* off;  ///< What to write instead.
  bool (*on)(const Config& config);
};

constexpr const char* kFalse = "write false";

bool stage3(const Config& c) { return c.zero_optimization.stage == 3; }
bool sharded(const Config& c) { return c.zero_optimization.stage >= 1; }
bool is_optimizer(const Config& c, const char* types) { return holds_word(types, c.optimizer.type); }

const std::vector<Capability>& capabilities() {
  static const std::vector<Capability> kRows{
      // Precision.
      {"amp.keep_batchnorm_fp32", "batch norm in fp32 beside fp16 weights", kFalse,
       [](const Config& c) {
         return c.amp.enabled && c.amp.keep_batchnorm_fp32.value_or(false) &&
                holds_word("O2 O3", c.amp.opt_level.value_or(""));
       }},
      {"data_types.buffer_dtype", "casting buffers", "write \"fp32\"",
       [](const Config& c) { return c.data_types.buffer_dtype.value_or(DataType::fp32) != DataType::fp32; }},
      // ZeRO.
      {"zero_optimization.offload_optimizer.device", "optimizer offload", "write \"none\"",
       [](const Config& c) {
         return sharded(c) && c.zero_optimization.offload_optimizer.device != OffloadDevice::none;
       }},
      {"zero_optimization.offload_param.device", "parameter offload", "write \"none\"",
       [](const Config& c) { return stage3(c) && c.zero_optimization.offload_param.device != OffloadDevice::none; }},
      {"zero_optimization.offload_optimizer.ratio", "splitting the update between processors", "write 1",
       [](const Config& c) { return stage3(c) && c.zero_optimization.offload_optimizer.ratio < 1; }},
      {"zero_optimization.offload_optimizer.super_offload", "speculative offload", kFalse,
       [](const Config& c) { return stage3(c) && c.zero_optimization.offload_optimizer.super_offload; }},
      {"zero_optimization.zero_hpz_partition_size", "secondary parameter shards", "write 1",
       [](const Config& c) { return stage3(c) && c.zero_optimization.zero_hpz_partition_size != 1; }},
      {"zero_optimization.mics_shard_size", "shard groups (MiCS)", "write -1",
       [](const Config& c) { return stage3(c) && c.zero_optimization.mics_shard_size != -1; }},
      {"zero_optimization.zero_quantized_weights", "quantized weights", kFalse,
       [](const Config& c) { return stage3(c) && c.zero_optimization.zero_quantized_weights; }},
      {"zero_optimization.zero_quantized_nontrainable_weights", "quantized weights", kFalse,
       [](const Config& c) { return stage3(c) && c.zero_optimization.zero_quantized_nontrainable_weights; }},
      {"zero_optimization.zero_quantized_gradients", "quantized gradients", kFalse,
       [](const Config& c) { return stage3(c) && c.zero_optimization.zero_quantized_gradients; }},
      // Gradients.
      {"managed_gradient_accumulation", "accumulation that the caller manages", "write true",
       [](const Config& c) { return !c.managed_gradient_accumulation; }},
      {"sequence_parallel_size", "sequence parallelism", "write 1",
       [](const Config& c) { return c.sequence_parallel_size.value_or(1) > 1; }},
      // Optimizers and schedules.
      {"optimizer.type", "this optimizer", "write \"Adam\", \"AdamW\", \"SGD\", \"Adagrad\" or \"RMSprop\"",
       [](const Config& c) { return !c.optimizer.type.empty() && !is_optimizer(c, "Adam AdamW SGD Adagrad RMSprop"); }},
      {"optimizer.params.amsgrad", "amsgrad", kFalse, [](const Config& c) { return c.optimizer.params.amsgrad; }},
      {"optimizer.params.maximize", "maximizing", kFalse, [](const Config& c) { return c.optimizer.params.maximize; }},
      {"optimizer.params.lr_decay", "Adagrad's own decay of the rate", "write 0",
       [](const Config& c) { return c.optimizer.params.lr_decay > 0; }},
      {"optimizer.params.initial_accumulator_value", "a first value of the sum of squares", "write 0",
       [](const Config& c) { return c.optimizer.params.initial_accumulator_value > 0; }},
      {"scheduler.type", "this schedule",
       "write \"WarmupLR\", \"WarmupDecayLR\", \"WarmupCosineLR\", \"LRRangeTest\" or \"OneCycle\"",
       [](const Config& c) {
         return !c.scheduler.type.empty() &&
                !holds_word("WarmupLR WarmupDecayLR WarmupCosineLR LRRangeTest OneCycle", c.scheduler.type);
       }},
      {"scheduler.params.last_batch_iteration", "starting inside a schedule", "write -1",
       [](const Config& c) { return c.scheduler.params.last_batch_iteration != -1; }},
      // Execution.
      {"activation_checkpointing.enabled", "activation checkpointing", kFalse,
       [](const Config& c) { return c.activation_checkpointing.enabled.value_or(false); }},
      {"pipeline.enabled", "pipeline parallelism", kFalse,
       [](const Config& c) { return c.pipeline.enabled.value_or(false); }},
      {"elasticity.enabled", "elastic batch sizes", kFalse, [](const Config& c) { return c.elasticity.enabled; }},
      // Checkpoints.
      {"checkpoint.save_optimizer", "checkpoints without optimizer state", "write true",
       [](const Config& c) { return c.checkpoint.enabled && !c.checkpoint.save_optimizer; }},
      {"checkpoint.save_lr_scheduler", "checkpoints without the schedule", "write true",
       [](const Config& c) { return c.checkpoint.enabled && !c.checkpoint.save_lr_scheduler; }},
      {"checkpoint.load_universal", "loading DeepSpeed's universal format", kFalse,
       [](const Config& c) { return c.checkpoint.load_universal; }},
      {"checkpoint.use_node_local_storage", "folders local to a node", kFalse,
       [](const Config& c) { return c.checkpoint.use_node_local_storage; }},
      {"checkpoint.writer.decoupled", "writing while training goes on", kFalse,
       [](const Config& c) { return c.checkpoint.writer.decoupled; }},
      {"lockstep.keep_checkpoints", "deleting old checkpoints", "write 0",
       [](const Config& c) { return c.lockstep.keep_checkpoints > 0; }},
      // Monitoring.
      {"memory_breakdown", "the memory breakdown", kFalse, [](const Config& c) { return c.memory_breakdown; }},
      {"dump_state", "printing the resolved settings", "write false; `lockstep config show FILE` prints them",
       [](const Config& c) { return c.dump_state; }},
      {"wandb.enabled", "Weights & Biases", kFalse, [](const Config& c) { return c.wandb.enabled; }},
      {"comet.enabled", "Comet", kFalse, [](const Config& c) { return c.comet.enabled; }},
      {"comms_logger.enabled", "the log of transfers", kFalse, [](const Config& c) { return c.comms_logger.enabled; }},
      {"flops_profiler.enabled", "the profiler", kFalse, [](const Config& c) { return c.flops_profiler.enabled; }},
      {"timers.throughput.enabled", "switching the throughput off", "write true",
       [](const Config& c) { return !c.timers.throughput.enabled; }},
  };
  return kRows;
}

/// Blocks whose mere presence switches something on.
struct Presence {
  const char* path;
  const char* name;
};
constexpr std::array kPresences{Presence{"zero_optimization.zenflow", "ZenFlow"},
                                Presence{"zero_optimization.zeropp_loco_param", "error feedback (LoCo)"}};

/// Blocks that are not read further, and the text that says they are on; empty: their presence does.
struct Block {
  const char* path;
  const char* name;
  const char* on;
};
constexpr std::array kBlocks{Block{"nebula", "Nebula checkpoints", "\"enabled\": true"},
                             Block{"datastates_ckpt", "DataStates checkpoints", ""},
                             Block{"tensor_parallel", "tensor parallelism", ""},
                             Block{"expert_parallel", "expert parallelism", "\"enabled\": true"},
                             Block{"hybrid_engine", "the hybrid engine", "\"enabled\": true"},
                             Block{"compile", "the graph compiler", "\"deepcompile\": true"},
                             Block{"weight_quantization", "weight quantization", ""},
                             Block{"sparse_attention", "sparse attention", ""},
                             Block{"quantize_training", "mixture of quantization", "\"enabled\": true"},
                             Block{"eigenvalue", "eigenvalues", "\"enabled\": true"},
                             Block{"curriculum_learning", "curriculum learning", "\"enabled\": true"},
                             Block{"data_efficiency", "data efficiency", "\"enabled\": true"},
                             Block{"progressive_layer_drop", "progressive layer dropping", "\"enabled\": true"},
                             Block{"compression_training", "compression", "\"enabled\": true"},
                             Block{"autotuning", "autotuning", "\"enabled\": true"}};

}  // namespace

void check_capabilities(Draft& draft) {
  for (const Capability& each : capabilities()) {
    if (each.on(draft.config)) draft.problem(each.path, fmt::format("{} is not yet built; {}", each.name, each.off));
  }
  for (const Presence& each : kPresences) {
    if (draft.given(each.path))
      draft.problem(each.path, fmt::format("{} is not yet built; remove the block", each.name));
  }
  for (const Block& each : kBlocks) {
    const auto found = draft.config.blocks.find(each.path);
    if (found == draft.config.blocks.end()) continue;
    if (found->second.find(each.on) != std::string::npos) {
      draft.problem(each.path, fmt::format("{} is not yet built; remove the block", each.name));
    } else {
      draft.notice(each.path,
                   fmt::format("changes nothing: {} is not yet built, and the block does not switch it on", each.name));
    }
  }
}

}  // namespace lockstep::config
