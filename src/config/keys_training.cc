#include "config/choices.h"

namespace lockstep::config {

void declare_training(KeyList& list, Config& c) {
  list("train_batch_size", c.train_batch_size,
       {.meaning =
            "Samples per optimizer step over all replicas: micro batch x accumulation x replicas. Give any two of "
            "the three batch keys, this one alone, or the micro batch alone.",
        .range = kAtLeastOne,
        .automatic = "as if absent: from the other two batch keys",
        .absent = "inferred"});
  list("train_micro_batch_size_per_gpu", c.train_micro_batch_size_per_gpu,
       {.meaning = "Samples in one forward on one replica.",
        .range = kAtLeastOne,
        .automatic = "as if absent: from the other two batch keys",
        .cost = "activation memory grows in proportion",
        .absent = "inferred"});
  list("gradient_accumulation_steps", c.gradient_accumulation_steps,
       {.meaning = "Micro-batches per optimizer step; in a pipeline the micro-batches in flight.",
        .range = kAtLeastOne,
        .automatic = "as if absent: from the other two batch keys",
        .cost = "above 1, fp32 accumulators of the gradients' size",
        .absent = "inferred"});
  list("steps_per_print", c.steps_per_print,
       {.meaning = "Rank 0 prints step, loss, rates and throughput every so many optimizer steps; absent: never.",
        .range = kAtLeastOne});
  list("wall_clock_breakdown", c.wall_clock_breakdown,
       {.meaning = "Times forward, backward, reduction and update separately.",
        .cost = "on a GPU, a synchronization around each phase"});
  list("memory_breakdown", c.memory_breakdown,
       {.meaning = "Prints the allocator's numbers around the phases of a step."});
  list("dump_state", c.dump_state, {.meaning = "Prints all resolved settings once set-up is done."});
  list("log_level", c.log_level,
       {.meaning = "Least severe message shown: debug, info, warning, error, critical or off, in any letter case; the "
                   "program's --log_level wins."});

  list("gradient_clipping", c.gradient_clipping,
       {.meaning = "Largest L2 norm of the whole gradient; larger ones are scaled down. 0 switches clipping off.",
        .range = kAtLeastZero,
        .automatic = "the default"});
  list("gradient_predivide_factor", c.gradient_predivide_factor,
       {.meaning = "Splits the division by the number of replicas in two.",
        .range = kPositive,
        .inert = "sums are taken in fp32 and divided once, so the mean is the same wherever it is divided"});
  list("prescale_gradients", c.prescale_gradients,
       {.meaning = "Divides by the number of replicas before the sum instead of after.",
        .inert = "sums are taken in fp32 and divided once, so the mean is the same wherever it is divided"});
  list("gradient_allreduce_op", c.gradient_allreduce_op,
       {.meaning = "mean, or sum for losses that are already normalized over all replicas."});
  list("communication_data_type", c.communication_data_type,
       {.meaning = "Type of gradients on the wire; absent: the precision mode's (fp32, fp16 or bf16).",
        .cost = "fp32 sends twice the bytes of a 16-bit type"});
  list("seq_parallel_communication_data_type", c.seq_parallel_communication_data_type,
       {.meaning = "Type on the wire of the reduction over the sequence-parallel group.",
        .inert = "there is no sequence parallelism to reduce over"});
  list("sparse_gradients", c.sparse_gradients,
       {.meaning = "Exchanges embedding gradients as (row, values) pairs. Stage 0 only."});
  list("zero_allow_untested_optimizer", c.zero_allow_untested_optimizer,
       {.meaning = "DeepSpeed's permission to combine ZeRO with any optimizer.",
        .inert = "every optimizer here is tested with every stage, so none needs it"});
  list("zero_force_ds_cpu_optimizer", c.zero_force_ds_cpu_optimizer,
       {.meaning = "Absent: nothing. true: the update runs with the CPU kernel even without offload. false: drops "
                   "DeepSpeed's check of a client optimizer under offload, which is not needed here.",
        .absent = "no effect"});
  list(
      "managed_gradient_accumulation", c.managed_gradient_accumulation,
      {.meaning = "true: the engine divides by the accumulation and knows its boundaries. false: step() is called when "
                  "the caller wants an update."});
  list("dataloader_drop_last", c.dataloader_drop_last,
       {.meaning = "Leaves out an epoch's last, smaller batch.",
        .inert = "sample order runs on across epochs, so there is no smaller last batch"});
  list("disable_allgather", c.disable_allgather,
       {.meaning = "Of old DeepSpeed versions.", .inert = "nothing has read it for years, in DeepSpeed either"});
  list("vocabulary_size", c.vocabulary_size,
       {.meaning = "Lets DeepSpeed warn if the vocabulary is no multiple of 8.",
        .range = kAtLeastOne,
        .inert = "the model states its vocabulary itself"});
  list("graph_harvesting", c.graph_harvesting,
       {.meaning = "Replays the update from a captured CUDA graph.",
        .inert = "the update is one pass already, so there is no launch overhead to save"});
  list("use_data_before_expert_parallelism", c.use_data_before_expert_parallelism,
       {.meaning = "Rank order of expert-parallel groups.", .inert = "there is no expert parallelism to order"});
  list("sequence_parallel_size", c.sequence_parallel_size,
       {.meaning = "Ranks that share one sequence; the replicas are the world divided by it.", .range = kAtLeastOne});
  list("data_parallel_size", c.data_parallel_size,
       {.meaning = "Number of replicas, stated for checking.", .range = kAtLeastOne});

  list.open("lockstep", "Keys of our own, which DeepSpeed ignores.");
  list("deterministic", c.lockstep.deterministic,
       {.meaning = "On GPUs, sums over ranks in rank order (as CPUs always do) in place of NCCL's own collectives.",
        .cost = "slower reductions on GPUs; nothing on CPUs"});
  list("reduce_at", c.lockstep.reduce_at,
       {.meaning = "When ranks are reduced under accumulation: boundary (once a step, after local sums), micro_batch "
                   "(each one, the owner accumulates), auto (boundary at stages 0-1, micro_batch at 2-3).",
        .cost = "micro_batch sends accumulation times the bytes and needs less memory at stages 2-3"});
  list("half_products", c.lockstep.half_products,
       {.meaning = "How the built-in models multiply matrices of 16-bit floats: native (by LibTorch), widened (blocks "
                   "widened to fp32), auto (a resumed run's; else native where rank 0's CPU has units for the type).",
        .cost = "native without such units is up to 100 times slower"});
  list("max_skipped_steps", c.lockstep.max_skipped_steps,
       {.meaning = "Non-finite steps in a row after which training stops as diverged (outside dynamic fp16 scaling).",
        .range = kAtLeastOne});
  list("timeout", c.lockstep.timeout,
       {.meaning = "Seconds that a transfer may wait for its peer before it is an error.", .range = kPositive});
  list("no_decay", c.lockstep.no_decay,
       {.meaning = "Patterns (* and ?) of parameter names that get no weight decay, as [\"*.bias\", \"*norm*\"]."});
  list("keep_checkpoints", c.lockstep.keep_checkpoints,
       {.meaning = "Checkpoints kept in a folder, the oldest are deleted; 0 keeps all.", .range = kAtLeastZero});
  list.close();
}

void declare_precision(KeyList& list, Config& c) {
  list.open("fp16", "16-bit floats with loss scaling and fp32 master weights.");
  Fp16Config& fp16 = c.fp16;
  list("enabled", fp16.enabled, {.meaning = "The switch. Excludes bf16, torch_autocast and amp.", .automatic = "off"});
  list("auto_cast", fp16.auto_cast,
       {.meaning = "Casts floating inputs of forward to fp16.", .only_if = "fp16.enabled"});
  list("loss_scale", fp16.loss_scale,
       {.meaning = "0: dynamic. Above 0: that scale, never changed; steps that overflow are still skipped.",
        .range = kAtLeastZero,
        .only_if = "fp16.enabled"});
  list("initial_scale_power", fp16.initial_scale_power,
       {.meaning = "A dynamic scale starts at 2 to this power.",
        .range = {.low = 0, .high = 127},
        .only_if = "fp16.enabled"});
  list("loss_scale_window", fp16.loss_scale_window,
       {.meaning = "Clean steps between doublings of the scale.", .range = kAtLeastOne, .only_if = "fp16.enabled"});
  list("hysteresis", fp16.hysteresis,
       {.meaning = "Overflows tolerated before the scale is halved.", .range = kAtLeastOne, .only_if = "fp16.enabled"});
  list("consecutive_hysteresis", fp16.consecutive_hysteresis,
       {.meaning = "Any clean step refills the tolerance.", .only_if = "fp16.enabled"});
  list("min_loss_scale", fp16.min_loss_scale,
       {.meaning = "The scale's floor; an overflow there ends the training.",
        .range = kPositive,
        .only_if = "fp16.enabled"});
  list("fp16_master_weights_and_grads", fp16.fp16_master_weights_and_grads,
       {.meaning = "Keeps masters and gradients in fp16. Needs stage 1-3 and a CPU-offloaded Adam.",
        .cost = "halves that memory and loses small updates",
        .only_if = "fp16.enabled"});
  list.close();

  list.open("bf16", "bfloat16 with fp32 master weights, without loss scaling. Also named bfloat16.");
  Bf16Config& bf16 = c.bf16;
  list("enabled", bf16.enabled, {.meaning = "The switch. Excludes fp16, torch_autocast and amp.", .automatic = "off"});
  list("immediate_grad_update", bf16.immediate_grad_update,
       {.meaning = "Adds each gradient to the fp32 sum at once.",
        .inert = "gradients are summed as backward produces them anyway",
        .only_if = "bf16.enabled"});
  list("check_grad_overflow", bf16.check_grad_overflow,
       {.meaning = "Skips steps with non-finite gradients. Must be true: one policy holds in all modes.",
        .only_if = "bf16.enabled"});
  list("bf16_master_weights_and_grads", bf16.bf16_master_weights_and_grads,
       {.meaning = "Keeps masters and gradients in bf16. Needs stage 1-3, and a CPU-offloaded Adam unless "
                   "bf16_optimizer_states.",
        .cost = "halves that memory and loses small updates",
        .only_if = "bf16.enabled"});
  list("bf16_optimizer_states", bf16.bf16_optimizer_states,
       {.meaning = "Keeps the moments in bf16 too. Needs bf16_master_weights_and_grads.", .only_if = "bf16.enabled"});
  list.close();

  list.open("torch_autocast", "fp32 weights, each operator in the type that suits it.");
  list("enabled", c.torch_autocast.enabled, {.meaning = "The switch. Excludes fp16, bf16 and amp."});
  list(
      "dtype", c.torch_autocast.dtype,
      {.meaning = "bf16, or fp16 with a gradient scaler; required when enabled.", .only_if = "torch_autocast.enabled"});
  list("lower_precision_safe_modules", c.torch_autocast.lower_precision_safe_modules,
       {.meaning = "Modules whose parameters travel in the low type; empty: Linear and Conv1d-3d.",
        .only_if = "torch_autocast.enabled"});
  list.close();

  list.open("amp", "Automatic mixed precision: fp16_backend torch, or Apex's opt_level. Excludes fp16, bf16 and ZeRO.");
  AmpConfig& amp = c.amp;
  list("enabled", amp.enabled, {.meaning = "The switch.", .automatic = "off"});
  list("opt_level", amp.opt_level,
       {.meaning = "Apex's level: O0 fp32, O1 by operator, O2 fp16 weights with fp32 masters, O3 fp16.",
        .automatic = "absent",
        .only_if = "amp.enabled"});
  list("fp16_backend", amp.fp16_backend,
       {.meaning = "torch (operators in fp16, fp32 weights, gradient scaler), apex, or auto.",
        .only_if = "amp.enabled"});
  list("cast_model_type", amp.cast_model_type,
       {.meaning = "Apex: type of the weights.", .inert = "the level decides", .only_if = "amp.enabled"});
  list("patch_torch_functions", amp.patch_torch_functions,
       {.meaning = "Apex: cast by operator.", .inert = "the level decides", .only_if = "amp.enabled"});
  list("keep_batchnorm_fp32", amp.keep_batchnorm_fp32,
       {.meaning = "Apex: batch norm stays fp32.", .only_if = "amp.enabled"});
  list("master_weights", amp.master_weights, {.meaning = "Apex: fp32 masters.", .only_if = "amp.enabled"});
  list(
      "loss_scale", amp.loss_scale,
      {.meaning = "Apex: a static loss scale; absent: the level's own.", .range = kPositive, .only_if = "amp.enabled"});
  list("cast_model_outputs", amp.cast_model_outputs,
       {.meaning = "Apex: type of outputs.", .inert = "a loss is always fp32", .only_if = "amp.enabled"});
  list("num_losses", amp.num_losses,
       {.meaning = "Apex: losses, each with its scale.",
        .range = kAtLeastOne,
        .inert = "one scale serves all losses of a step",
        .only_if = "amp.enabled"});
  list("verbosity", amp.verbosity,
       {.meaning = "Apex: messages.",
        .range = kAtLeastZero,
        .inert = "the log's level decides",
        .only_if = "amp.enabled"});
  list("min_loss_scale", amp.min_loss_scale,
       {.meaning = "Apex: floor of a dynamic scale.", .range = kPositive, .only_if = "amp.enabled"});
  list("max_loss_scale", amp.max_loss_scale,
       {.meaning = "Apex: ceiling of a dynamic scale.", .range = kPositive, .only_if = "amp.enabled"});
  list.close();

  list.open("data_types", "Types of buffers beside the precision mode.");
  list("grad_accum_dtype", c.data_types.grad_accum_dtype,
       {.meaning = "Type in which gradients are accumulated over micro-batches; absent: fp32.",
        .inert = "sums of several gradients are always in fp32, and a single one stays in the type it travels in"});
  list("param_dtype", c.data_types.param_dtype,
       {.meaning = "Type the parameters are cast to; must agree with the precision mode."});
  list("buffer_dtype", c.data_types.buffer_dtype, {.meaning = "Type the buffers are cast to; absent: as they are."});
  list.close();
}

}  // namespace lockstep::config
