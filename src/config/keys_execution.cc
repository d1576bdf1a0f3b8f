#include "config/choices.h"

namespace lockstep::config {
namespace {

void declare_activation(KeyList& list, ActivationCheckpointingConfig& c) {
  constexpr const char* kOn = "activation_checkpointing.enabled";
  list.open("activation_checkpointing", "Computes activations again in backward instead of keeping them.");
  list("enabled", c.enabled,
       {.meaning = "true: the engine recomputes layers. false: none. Absent: as the model asks.",
        .cost = "one more forward of the layers recomputed",
        .absent = "the model's"});
  list("checkpoint_ratio", c.checkpoint_ratio,
       {.meaning = "Share of the layers that are recomputed, spread evenly; 1 where only enabled is given.",
        .range = kFraction,
        .only_if = kOn});
  list("partition_activations", c.partition_activations,
       {.meaning = "Splits kept inputs over the tensor-parallel ranks.",
        .inert = "there is no tensor parallelism to split over"});
  list("cpu_checkpointing", c.cpu_checkpointing,
       {.meaning = "Keeps saved inputs in host memory.", .cost = "two copies over the host link", .only_if = kOn});
  list("contiguous_memory_optimization", c.contiguous_memory_optimization,
       {.meaning = "Copies saved inputs into buffers made beforehand, against fragmentation.", .only_if = kOn});
  list("number_checkpoints", c.number_checkpoints,
       {.meaning = "Number of recomputed segments; absent: from checkpoint_ratio.",
        .range = kAtLeastOne,
        .only_if = kOn});
  list("synchronize_checkpoint_boundary", c.synchronize_checkpoint_boundary,
       {.meaning = "Waits for the device at each boundary.", .cost = "stalls the device", .only_if = kOn});
  list("profile", c.profile, {.meaning = "Times recomputation.", .only_if = kOn});
  list.close();
}

void declare_pipeline(KeyList& list, PipelineConfig& c) {
  constexpr const char* kOn = "pipeline.enabled";
  list.open("pipeline", "Splits the layers over stages that work on different micro-batches.");
  list(
      "enabled", c.enabled,
      {.meaning = "true: needs a model that is a list of layers. Absent: as the model asks.", .absent = "the model's"});
  list("micro_batch_size", c.micro_batch_size,
       {.meaning = "The same as train_micro_batch_size_per_gpu; must equal it, or sets it.", .range = kAtLeastOne});
  list("stages", c.stages,
       {.meaning = "Number of stages; must divide the world.",
        .range = kAtLeastOne,
        .automatic = "every rank is a stage, so there is one replica",
        .absent = "auto",
        .only_if = kOn});
  list("schedule", c.schedule,
       {.meaning = "1f1b, or gpipe: all forwards, then all backwards.",
        .cost = "gpipe keeps every micro-batch's activations",
        .only_if = kOn});
  list("partition", c.partition,
       {.meaning = "Of old DeepSpeed versions.", .inert = "layers are balanced by their parameters, as in DeepSpeed"});
  list("seed_layers", c.seed_layers,
       {.meaning = "Seeds each layer by its index.", .inert = "a layer's random numbers never depend on its stage"});
  list("activation_checkpoint_interval", c.activation_checkpoint_interval,
       {.meaning = "Recomputes every so many layers of a stage; 0: the model's setting.",
        .range = kAtLeastZero,
        .only_if = kOn});
  list("pipe_partitioned", c.pipe_partitioned,
       {.meaning = "Sends activations split over tensor-parallel ranks.",
        .inert = "there is no tensor parallelism to split over"});
  list("grad_partitioned", c.grad_partitioned,
       {.meaning = "Sends activation gradients split over tensor-parallel ranks.",
        .inert = "there is no tensor parallelism to split over"});
  list("use_reentrant", c.use_reentrant,
       {.meaning = "PyTorch's flavour of recomputation.", .inert = "there is one flavour of recomputation"});
  list.close();
}

void declare_checkpoint(KeyList& list, CheckpointConfig& c) {
  constexpr const char* kOn = "checkpoint.enabled";
  list.open("checkpoint", "Saving and loading the training state.");
  list("enabled", c.enabled, {.meaning = "The engine saves by itself: every save_interval steps and at the end."});
  list("save_interval", c.save_interval,
       {.meaning = "Steps between saves; absent: at the end only.", .range = kAtLeastOne, .only_if = kOn});
  list("path", c.path, {.meaning = "Folder of the checkpoints; required when enabled.", .only_if = kOn});
  list("prefix", c.prefix,
       {.meaning = "Names them PREFIX-step_N; absent: global_stepN. Without a slash.", .only_if = kOn});
  list("save_optimizer", c.save_optimizer,
       {.meaning = "false: leaves out the optimizer's state, which then restarts from zero.", .only_if = kOn});
  list("save_lr_scheduler", c.save_lr_scheduler,
       {.meaning = "false: leaves out the schedule's position.", .only_if = kOn});
  list("tag_validation", c.tag_validation,
       {.meaning = "Whether all ranks must name the same tag: Ignore, Warn or Fail.",
        .inert = "rank 0 names the tag for all ranks, so tags cannot differ"});
  list("load_universal", c.load_universal,
       {.meaning = "Loads DeepSpeed's universal format; our own checkpoints load at any world size anyway."});
  list("use_node_local_storage", c.use_node_local_storage,
       {.meaning = "Each node has its own folder of that name.", .automatic = "off"});
  list.open("parallel_write", "Who writes what several ranks hold.");
  list("pipeline_stage", c.parallel_write_pipeline_stage,
       {.meaning = "The replicas of a stage share its writing.", .inert = "replicas always share the writing"});
  list.close();
  list("checkpoint_serialization", c.checkpoint_serialization,
       {.meaning = "false: DeepSpeed's raw tensor files.", .inert = "files are safetensors in either case"});
  list.open("writer", "DeepSpeed's fast writer.");
  constexpr const char* kOneWriter = "there is one writer, which streams and checks what it wrote";
  list("type", c.writer.type, {.meaning = "FAST, PYTHON or MOCK.", .inert = kOneWriter});
  list("decoupled", c.writer.decoupled,
       {.meaning = "Writes while training goes on.", .cost = "a host copy of the state"});
  list("io_buffer_size", c.writer.io_buffer_size,
       {.meaning = "Bytes of staging.", .range = kAtLeastOne, .inert = kOneWriter});
  list("io_buffer_double", c.writer.io_buffer_double, {.meaning = "Two staging buffers.", .inert = kOneWriter});
  list("show_statistics", c.writer.show_statistics, {.meaning = "Reports the writing speed.", .inert = kOneWriter});
  list("data_parallel", c.writer.data_parallel,
       {.meaning = "Who writes a shared replica: REPLICA, SOCKET or MACHINE.",
        .inert = "replicas always share the writing"});
  list("io_multiplier", c.writer.io_multiplier,
       {.meaning = "Writers per rank.", .range = kAtLeastOne, .inert = kOneWriter});
  list.close();
  list.close();
}

void declare_elasticity(KeyList& list, ElasticityConfig& c) {
  constexpr const char* kOn = "elasticity.enabled";
  list.open("elasticity", "Chooses a batch size that many world sizes can train with.");
  list("enabled", c.enabled, {.meaning = "The switch. Then the batch keys must be absent."});
  list("max_train_batch_size", c.max_train_batch_size,
       {.meaning = "Largest total batch.", .range = kAtLeastOne, .only_if = kOn});
  list("micro_batch_sizes", c.micro_batch_sizes,
       {.meaning = "Micro-batches to choose from.", .range = kAtLeastOne, .only_if = kOn});
  list("min_gpus", c.min_gpus, {.meaning = "Smallest world.", .range = kAtLeastOne, .only_if = kOn});
  list("max_gpus", c.max_gpus, {.meaning = "Largest world.", .range = kAtLeastOne, .only_if = kOn});
  list("min_time", c.min_time,
       {.meaning = "Of old DeepSpeed versions.",
        .range = kAtLeastZero,
        .inert = "nothing reads it, in DeepSpeed either"});
  list("prefer_larger_batch", c.prefer_larger_batch, {.meaning = "Settles ties.", .only_if = kOn});
  list("ignore_non_elastic_batch_info", c.ignore_non_elastic_batch_info,
       {.meaning = "The batch keys may stand beside it and are ignored.", .only_if = kOn});
  list("num_gpus_per_node", c.num_gpus_per_node,
       {.meaning = "Devices per node.", .range = kAtLeastOne, .only_if = kOn});
  list("model_parallel_size", c.model_parallel_size,
       {.meaning = "Ranks per model.", .range = kAtLeastOne, .only_if = kOn});
  list("version", c.version,
       {.meaning = "0.1 counts devices, 0.2 nodes.", .range = {.low = 0.1, .high = 0.2}, .only_if = kOn});
  list.close();
}

}  // namespace

void declare_execution(KeyList& list, Config& c) {
  declare_activation(list, c.activation_checkpointing);
  declare_pipeline(list, c.pipeline);
  declare_checkpoint(list, c.checkpoint);
  declare_elasticity(list, c.elasticity);

  list.block("nebula", "A closed checkpoint service.");
  list.block("datastates_ckpt", "DeepSpeed's asynchronous checkpoint engine; present means on.");
  list.block("tensor_parallel", "Splits linear layers over ranks.");
  list.block("expert_parallel", "Spreads experts over ranks.");
  list.block("hybrid_engine", "Generation inside training.");
  list.block("compile", "DeepSpeed's graph compiler.");
  list.block("weight_quantization", "Quantized weights for inference; present means on.");
  list.block("sparse_attention", "Sparse attention layouts; present means on.");
  list.block("quantize_training", "Mixture of quantization.");
  list.block("eigenvalue", "Curvature for quantization.");
  list.block("curriculum_learning", "Sequence length that grows while training.");
  list.block("data_efficiency", "Curriculum sampling and token dropping.");
  list.block("progressive_layer_drop", "Drops layers at random.");
  list.block("compression_training", "Quantization, pruning and layer reduction.");
  list.block("autotuning", "The launcher's search for settings.");
}

}  // namespace lockstep::config
