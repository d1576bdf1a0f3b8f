#include "config/choices.h"

namespace lockstep::config {
namespace {

void declare_offload(KeyList& list, ZeroConfig& c) {
  list.open("offload_param", "Where 16-bit parameter slices live between uses. Stage 3.");
  OffloadParamConfig& param = c.offload_param;
  list("device", param.device, {.meaning = "none, cpu or nvme.", .stages = "3"});
  list("nvme_path", param.nvme_path, {.meaning = "Folder on the disk; required for nvme.", .stages = "3"});
  list("buffer_count", param.buffer_count, {.meaning = "Staging buffers.", .range = kAtLeastOne, .stages = "3"});
  list("buffer_size", param.buffer_size,
       {.meaning = "Elements per buffer; at least the largest slice of a parameter.",
        .range = kAtLeastOne,
        .stages = "3"});
  list("max_in_cpu", param.max_in_cpu,
       {.meaning = "Elements kept in host memory although the device is nvme.", .range = kAtLeastZero, .stages = "3"});
  list("pin_memory", param.pin_memory,
       {.meaning = "Page-locks host buffers.", .cost = "locked memory; nothing without CUDA", .stages = "3"});
  list.close();

  list.open("offload_optimizer", "Where masters and moments live, and where the update runs. Stages 1-3.");
  OffloadOptimizerConfig& optimizer = c.offload_optimizer;
  list("device", optimizer.device, {.meaning = "none, cpu or nvme.", .stages = "123"});
  list("nvme_path", optimizer.nvme_path, {.meaning = "Folder on the disk; required for nvme.", .stages = "123"});
  list("buffer_count", optimizer.buffer_count,
       {.meaning = "Staging buffers per tile; at least the states per parameter + 2, twice that with pipeline_read or "
                   "pipeline_write.",
        .range = kAtLeastOne,
        .stages = "123"});
  list("pin_memory", optimizer.pin_memory,
       {.meaning = "Page-locks host buffers.", .cost = "locked memory; nothing without CUDA", .stages = "123"});
  list("pipeline_read", optimizer.pipeline_read,
       {.meaning = "Reads the next tile during an update.", .cost = "twice the buffers", .stages = "123"});
  list("pipeline_write", optimizer.pipeline_write,
       {.meaning = "Writes the last tile during an update.", .cost = "twice the buffers", .stages = "123"});
  list("fast_init", optimizer.fast_init, {.meaning = "Does not write states that start as zeros.", .stages = "123"});
  list("ratio", optimizer.ratio,
       {.meaning = "Share of the sub-groups that the CPU updates.", .range = kFraction, .stages = "3"});
  list("super_offload", optimizer.super_offload, {.meaning = "Speculative update in worker processes.", .stages = "3"});
  list("cpuadam_cores_perc", optimizer.cpuadam_cores_perc,
       {.meaning = "Share of the cores for super_offload.",
        .range = kFraction,
        .stages = "3",
        .only_if = "zero_optimization.offload_optimizer.super_offload"});
  list.close();

  list.open("zenflow", "Updates the important columns each step and the rest behind. Needs CPU offload.");
  ZenFlowConfig& zen = c.zenflow;
  list("topk_ratio", zen.topk_ratio,
       {.meaning = "Share of columns updated each step.", .range = kFraction, .stages = "123"});
  list("select_strategy", zen.select_strategy,
       {.meaning = "When columns are chosen anew: step, epoch, or auto (epoch).", .stages = "123"});
  list("select_interval", zen.select_interval,
       {.meaning = "Steps or epochs between choices.",
        .range = kAtLeastOne,
        .automatic = "chosen while training",
        .stages = "123"});
  list("update_interval", zen.update_interval,
       {.meaning = "Steps between updates of the rest; replaces the accumulation.",
        .range = kAtLeastOne,
        .automatic = "chosen while training",
        .stages = "123"});
  list("overlap_step", zen.overlap_step, {.meaning = "Updates the rest beside the next forward.", .stages = "123"});
  list("offload", zen.offload, {.meaning = "Keeps the chosen columns' states on the CPU too.", .stages = "123"});
  list("auto_ratio", zen.auto_ratio,
       {.meaning = "Threshold of the automatic interval.", .range = kFraction, .stages = "123"});
  list("full_warm_up_rounds", zen.full_warm_up_rounds,
       {.meaning = "Full updates at the start.", .range = kAtLeastZero, .stages = "123"});
  list("pt_reserved_cores_perc", zen.pt_reserved_cores_perc,
       {.meaning = "Share of the cores kept for the main process.", .range = kFraction, .stages = "123"});
  list.close();
}

void declare_stage3(KeyList& list, ZeroConfig& c) {
  list("sub_group_size", c.sub_group_size,
       {.meaning = "Elements updated at a time; smaller means a lower peak.",
        .range = kAtLeastOne,
        .inert = "the update always goes over slices in small chunks, with no buffer of its own",
        .stages = "3"});
  list("stage3_prefetch_bucket_size", c.stage3_prefetch_bucket_size,
       {.meaning = "Elements gathered ahead.",
        .range = kAtLeastZero,
        .automatic = "0.9 x hidden size squared",
        .cost = "that many elements of memory",
        .stages = "3",
        .other_names = "prefetch_bucket_size"});
  list("stage3_param_persistence_threshold", c.stage3_param_persistence_threshold,
       {.meaning = "Parameters of at most this many elements stay gathered.",
        .range = kAtLeastZero,
        .automatic = "10 x hidden size",
        .inert = "not yet built: units are gathered whole, small parameters with them",
        .stages = "3",
        .other_names = "param_persistence_threshold"});
  list("stage3_model_persistence_threshold", c.stage3_model_persistence_threshold,
       {.meaning = "Most elements that stay gathered by that rule.",
        .range = kAtLeastZero,
        .inert = "not yet built: no parameter stays gathered",
        .stages = "3",
        .other_names = "model_persistence_threshold"});
  list("stage3_max_live_parameters", c.stage3_max_live_parameters,
       {.meaning = "Most gathered elements; bounds gathering ahead, never the layer at work.",
        .range = kAtLeastZero,
        .stages = "3",
        .other_names = "max_live_parameters"});
  list("stage3_max_reuse_distance", c.stage3_max_reuse_distance,
       {.meaning = "A parameter needed again within so many elements is not released.",
        .range = kAtLeastZero,
        .inert = "not yet built: a unit is released after its forward, but for the one whose backward comes next",
        .stages = "3",
        .other_names = "max_reuse_distance"});
  list("stage3_gather_16bit_weights_on_model_save", c.stage3_gather_16bit_weights_on_model_save,
       {.meaning = "Gathers 16-bit weights on rank 0 when a model is saved.",
        .cost = "the whole model in rank 0's memory",
        .inert = "exported weights are always gathered, a unit at a time",
        .stages = "3",
        .other_names = "gather_16bit_weights_on_model_save"});
  list("stage3_module_granularity_threshold", c.stage3_module_granularity_threshold,
       {.meaning = "Modules whose parameters per submodule are at most this many are gathered as one.",
        .range = kAtLeastZero,
        .inert = "a layer is gathered as one unit",
        .stages = "3",
        .other_names = "module_granularity_threshold"});
  list("stage3_use_all_reduce_for_fetch_params", c.stage3_use_all_reduce_for_fetch_params,
       {.meaning = "Gathers by an all-reduce of zero-filled buffers.",
        .inert = "slices are gathered by an all-gather, which sends less",
        .stages = "3",
        .other_names = "use_all_reduce_for_fetch_params"});
  list("stage3_allgather_sequential", c.stage3_allgather_sequential,
       {.meaning = "Gathers one at a time, nothing ahead.",
        .inert = "not yet built: write stage3_prefetch_bucket_size 0 for nothing ahead",
        .stages = "3",
        .other_names = "allgather_sequential"});
  list("zero_hpz_partition_size", c.zero_hpz_partition_size,
       {.meaning = "Ranks that share a second copy of the parameters for backward; must divide the replicas.",
        .range = kAtLeastOne,
        .cost = "a copy of the parameters over that many ranks",
        .stages = "3"});
  list("zero_quantized_weights", c.zero_quantized_weights, {.meaning = "Gathers weights as int8.", .stages = "3"});
  list("zero_quantized_nontrainable_weights", c.zero_quantized_nontrainable_weights,
       {.meaning = "Keeps frozen weights as int8.", .stages = "3"});
  list("zero_quantized_gradients", c.zero_quantized_gradients,
       {.meaning = "Reduces gradients as int4 in two hops; needs more than one node.", .stages = "3"});
  list.open("zeropp_loco_param", "Error feedback for quantized gradients.");
  list("err_beta", c.zeropp_loco_param.err_beta, {.meaning = "Decay of the error.", .range = kFraction, .stages = "3"});
  list("reset_T", c.zeropp_loco_param.reset_T,
       {.meaning = "Reductions between resets of the error.", .range = kAtLeastOne, .stages = "3"});
  list.close();
  list("mics_shard_size", c.mics_shard_size,
       {.meaning = "Shards over groups of so many ranks and replicates across groups; -1: off.",
        .range = {.low = -1},
        .stages = "3"});
  list(
      "mics_hierarchical_params_gather", c.mics_hierarchical_params_gather,
      {.meaning = "Gathers in two levels under mics_shard_size.", .inert = "there are no shard groups", .stages = "3"});
  list("memory_efficient_linear", c.memory_efficient_linear,
       {.meaning = "A linear layer does not keep its gathered weight for backward.",
        .inert = "no layer keeps a gathered weight: views of it are filled again before backward",
        .stages = "3"});
  list("pipeline_loading_checkpoint", c.pipeline_loading_checkpoint,
       {.meaning = "Overlaps reads while loading to NVMe.", .inert = "nothing is offloaded to NVMe", .stages = "3"});
  list("override_module_apply", c.override_module_apply,
       {.meaning = "Gathers parameters around Module.apply.",
        .inert = "edits go through the gathered-parameter scope",
        .stages = "3"});
  list("log_trace_cache_warnings", c.log_trace_cache_warnings,
       {.meaning = "Logs each change of the recorded order.",
        .inert = "the order of units is fixed by the plan, so no trace is invalidated",
        .stages = "3"});
  list("enable_sanity_checks", c.enable_sanity_checks,
       {.meaning = "Compares ranks at every gather.",
        .inert = "ranks always compare their plan before the first transfer",
        .stages = "3"});
  list("save_muon_momentum_buffer_in_memory", c.save_muon_momentum_buffer_in_memory,
       {.meaning = "Keeps Muon's momentum on the device under NVMe offload.",
        .inert = "nothing is offloaded to NVMe",
        .stages = "3"});
  list.open("leaf_module", "Modules that are gathered as one, with all inside.");
  list("classes", c.leaf_module.classes,
       {.meaning = "By class name.", .inert = "a layer is gathered as one unit, with all inside", .stages = "3"});
  list("names", c.leaf_module.names,
       {.meaning = "By module name.", .inert = "a layer is gathered as one unit, with all inside", .stages = "3"});
  list("name_suffixes", c.leaf_module.name_suffixes,
       {.meaning = "By the end of the module's name.",
        .inert = "a layer is gathered as one unit, with all inside",
        .stages = "3"});
  list.close();
}

}  // namespace

void declare_zero(KeyList& list, Config& config) {
  ZeroConfig& c = config.zero_optimization;
  list.open("zero_optimization", "Shards training state over the replicas. Also a boolean: true means stage 1.");
  list("stage", c.stage,
       {.meaning = "0: off. 1: optimizer states are sharded. 2: gradients too. 3: parameters too.",
        .range = {.low = 0, .high = 3},
        .cost = "stage 3 sends half as much again and gathers in every micro-batch"});
  list("contiguous_gradients", c.contiguous_gradients,
       {.meaning = "Copies gradients into a bucket as they appear, against fragmentation.",
        .inert = "gradients are always copied into a bucket as they appear",
        .stages = "123"});
  list("reduce_scatter", c.reduce_scatter,
       {.meaning = "true: each owner gets its slice's mean. false: everyone gets the whole mean and keeps a slice.",
        .cost = "false sends twice the bytes",
        .inert = "each owner gets the mean of its slice, in half the bytes of an all-reduce",
        .stages = "123"});
  list("reduce_bucket_size", c.reduce_bucket_size,
       {.meaning = "Elements reduced at a time; absent: 4 MB on the wire on a CPU, else 5e8.",
        .range = kAtLeastOne,
        .automatic = "hidden size squared",
        .cost = "a bucket of memory, two with overlap_comm",
        .absent = "by device"});
  list("use_multi_rank_bucket_allreduce", c.use_multi_rank_bucket_allreduce,
       {.meaning = "DeepSpeed: reduces a bucket with several owners by an all-reduce.",
        .inert = "a bucket is always reduced and scattered to its owners",
        .stages = "12"});
  list("allgather_partitions", c.allgather_partitions,
       {.meaning = "Gathers the updated slices in one all-gather; false: one broadcast per owner.",
        .inert = "both give the same parameters; one all-gather is used",
        .stages = "12"});
  list("allgather_bucket_size", c.allgather_bucket_size,
       {.meaning =
            "Elements of weights gathered at a time: after an update; at stage 3, of small units before they run. "
            "Absent: as reduce_bucket_size.",
        .range = kAtLeastOne,
        .stages = "123",
        .absent = "by device"});
  list("overlap_comm", c.overlap_comm,
       {.meaning = "Reduces during backward; absent: on on a CPU, else at stage 3.",
        .cost = "a second bucket",
        .absent = "by device"});
  list("load_from_fp32_weights", c.load_from_fp32_weights,
       {.meaning = "Masters are loaded from fp32 slices; false: from the 16-bit weights.",
        .inert = "checkpoints hold the fp32 weights, and no others",
        .stages = "12"});
  list("elastic_checkpoint", c.elastic_checkpoint,
       {.meaning = "DeepSpeed's old checkpoints for several world sizes.",
        .inert = "every checkpoint loads at any world size"});
  declare_offload(list, c);
  list("ignore_unused_parameters", c.ignore_unused_parameters,
       {.meaning = "false: a parameter without a gradient is an error.", .stages = "12"});
  list("round_robin_gradients", c.round_robin_gradients,
       {.meaning = "Deals parameters out to owners in turn.",
        .inert = "slices of every layer are spread over all owners already",
        .stages = "12"});
  declare_stage3(list, c);
  list.close();

  list.open("aio", "How files are read and written under nvme offload.");
  list("block_size", config.aio.block_size, {.meaning = "Bytes per request.", .range = {.low = 512}});
  list("queue_depth", config.aio.queue_depth, {.meaning = "Requests in flight per thread.", .range = kAtLeastOne});
  list("intra_op_parallelism", config.aio.intra_op_parallelism,
       {.meaning = "Threads per read or write.", .range = kAtLeastOne});
  list("single_submit", config.aio.single_submit, {.meaning = "Submits requests one by one."});
  list("overlap_events", config.aio.overlap_events, {.meaning = "Submits more while waiting."});
  list("use_gds", config.aio.use_gds, {.meaning = "GPUDirect storage. CUDA only."});
  list.close();
}

}  // namespace lockstep::config
