#include "config/choices.h"

namespace lockstep::config {
namespace {

constexpr const char* kAdams = "Adam AdamW";
constexpr const char* kOneBit = "OneBitAdam OneBitLamb ZeroOneAdam";
constexpr const char* kWithBetas = "Adam AdamW Lamb Lion Muon OneBitAdam OneBitLamb ZeroOneAdam";
constexpr const char* kWithEps = "Adam AdamW Lamb Adagrad RMSprop Muon OneBitAdam OneBitLamb ZeroOneAdam";
constexpr const char* kLambs = "Lamb OneBitLamb";
constexpr const char* kLambLike = "Lamb OneBitAdam OneBitLamb ZeroOneAdam";
constexpr const char* kWarmups = "WarmupLR WarmupDecayLR WarmupCosineLR";

}  // namespace

void declare_optimizer(KeyList& list, OptimizerConfig& c) {
  list.open("optimizer", "The update rule; absent: the caller passes one, or the engine only runs forward.");
  list("type", c.type,
       {.meaning = "Adam, AdamW, SGD, Adagrad, RMSprop, Lamb, Lion, Muon, OneBitAdam, OneBitLamb or ZeroOneAdam. "
                   "DeepSpeed's own names are taken in any letter case, LibTorch's (SGD, RMSprop) as written.",
        .absent = "none",
        .type_names = true});
  list("legacy_fusion", c.legacy_fusion,
       {.meaning = "DeepSpeed's old fused update.", .inert = "there is one update, always fused"});
  list.open("params", "The rule's parameters; one that the type does not take is refused.");
  OptimizerParams& p = c.params;
  list("lr", p.lr,
       {.meaning = "Learning rate, before any schedule.", .range = kAtLeastZero, .automatic = "the type's default"});
  list("betas", p.betas,
       {.meaning = "Decay of the first and second moment.",
        .range = kBelowOne,
        .automatic = "the type's default",
        .takers = kWithBetas});
  list("eps", p.eps,
       {.meaning = "Added to the denominator.",
        .range = kAtLeastZero,
        .automatic = "the type's default",
        .takers = kWithEps});
  list("weight_decay", p.weight_decay,
       {.meaning =
            "Decay of the weights: apart from the gradient for AdamW and (unless adam_w_mode is false) Adam, Lion, "
            "Lamb and Muon; added to the gradient for the others.",
        .range = kAtLeastZero,
        .automatic = "the type's default"});
  list("bias_correction", p.bias_correction,
       {.meaning = "Corrects the moments for their start at zero.",
        .takers = "Adam AdamW Lamb OneBitAdam OneBitLamb ZeroOneAdam"});
  list("adam_w_mode", p.adam_w_mode,
       {.meaning =
            "Type Adam: true decays apart from the gradient (as AdamW), false adds the decay to it (L2). AdamW is "
            "always decoupled.",
        .takers = kAdams});
  list("torch_adam", p.torch_adam,
       {.meaning = "LibTorch's own loop in DeepSpeed.",
        .inert = "one Adam serves all cases; its numbers agree with LibTorch's to rounding",
        .takers = kAdams});
  list("amsgrad", p.amsgrad,
       {.meaning = "Divides by the largest second moment so far.",
        .takers = "Adam AdamW Lamb OneBitAdam OneBitLamb ZeroOneAdam"});
  list("maximize", p.maximize,
       {.meaning = "Climbs in place of descending.", .takers = "Adam AdamW SGD Adagrad RMSprop"});
  list("momentum", p.momentum,
       {.meaning = "Share of the last update that is kept.", .range = kAtLeastZero, .takers = "SGD RMSprop Muon"});
  list("dampening", p.dampening,
       {.meaning = "Takes this share off the gradient's part in the momentum.", .takers = "SGD"});
  list("nesterov", p.nesterov,
       {.meaning = "Nesterov's momentum; needs momentum above 0 and no dampening.", .takers = "SGD"});
  list("alpha", p.alpha, {.meaning = "Decay of the mean square.", .range = kBelowOne, .takers = "RMSprop"});
  list("centered", p.centered,
       {.meaning = "Subtracts the squared mean gradient from the mean square.", .takers = "RMSprop"});
  list("lr_decay", p.lr_decay,
       {.meaning = "The rate is divided by 1 + (n - 1) x lr_decay at update n.",
        .range = kAtLeastZero,
        .takers = "Adagrad"});
  list("initial_accumulator_value", p.initial_accumulator_value,
       {.meaning = "First value of the sum of squares.", .range = kAtLeastZero, .takers = "Adagrad"});
  list("max_coeff", p.max_coeff, {.meaning = "Upper bound of the trust ratio.", .range = kPositive, .takers = kLambs});
  list("min_coeff", p.min_coeff,
       {.meaning = "Lower bound of the trust ratio.", .range = kAtLeastZero, .takers = kLambs});
  list("eps_inside_sqrt", p.eps_inside_sqrt, {.meaning = "Adds eps under the square root.", .takers = kLambLike});
  list("muon_lr", p.muon_lr, {.meaning = "Rate of the matrices; absent: lr.", .range = kAtLeastZero, .takers = "Muon"});
  list("adam_lr", p.adam_lr,
       {.meaning = "Rate of everything else; absent: lr.", .range = kAtLeastZero, .takers = "Muon"});
  list("ns_method", p.ns_method, {.meaning = "How matrices are made orthogonal: gram or standard.", .takers = "Muon"});
  list("freeze_step", p.freeze_step,
       {.meaning = "Uncompressed updates before the second moment is frozen.",
        .range = kAtLeastZero,
        .takers = "OneBitAdam OneBitLamb"});
  list("cuda_aware", p.cuda_aware,
       {.meaning = "MPI reads device memory.", .inert = "MPI carries no tensors here", .takers = kOneBit});
  list("comm_backend_name", p.comm_backend_name,
       {.meaning = "DeepSpeed's choice of transport (nccl, mpi, ...).",
        .inert = "compressed sums use the engine's own transport",
        .takers = kOneBit});
  list("coeff_beta", p.coeff_beta,
       {.meaning = "Decay of the warm-up trust ratio.", .range = kBelowOne, .takers = "OneBitLamb"});
  list("factor_max", p.factor_max,
       {.meaning = "Upper bound of the compression stage's factor.", .range = kPositive, .takers = "OneBitLamb"});
  list("factor_min", p.factor_min,
       {.meaning = "Lower bound of the compression stage's factor.", .range = kPositive, .takers = "OneBitLamb"});
  list("factor_threshold", p.factor_threshold,
       {.meaning = "Largest relative change of that factor in a step.", .range = kPositive, .takers = "OneBitLamb"});
  list("var_freeze_step", p.var_freeze_step,
       {.meaning = "Update at which the variance is frozen and local steps begin.",
        .range = kAtLeastZero,
        .takers = "ZeroOneAdam"});
  list("var_update_scaler", p.var_update_scaler,
       {.meaning = "Refreshes of the variance before their interval doubles.",
        .range = kAtLeastOne,
        .takers = "ZeroOneAdam"});
  list("local_step_scaler", p.local_step_scaler,
       {.meaning = "Updates after which the local-step interval doubles.",
        .range = kAtLeastOne,
        .takers = "ZeroOneAdam"});
  list("local_step_clipper", p.local_step_clipper,
       {.meaning = "Longest local-step interval.", .range = kAtLeastOne, .takers = "ZeroOneAdam"});
  constexpr const char* kFused = "the update is one pass over all parameters already";
  list("foreach", p.foreach_loop,
       {.meaning = "LibTorch's choice of loop.", .inert = kFused, .takers = "Adam AdamW SGD Adagrad RMSprop"});
  list("fused", p.fused,
       {.meaning = "LibTorch's choice of loop.", .inert = kFused, .takers = "Adam AdamW SGD Adagrad"});
  list("capturable", p.capturable,
       {.meaning = "LibTorch's CUDA graphs.", .inert = "no graph is captured", .takers = "Adam AdamW RMSprop"});
  list("differentiable", p.differentiable,
       {.meaning = "LibTorch: gradients through the update.",
        .inert = "the update is never differentiated",
        .takers = "Adam AdamW SGD Adagrad RMSprop"});
  list.close();
  list.close();
}

void declare_scheduler(KeyList& list, SchedulerConfig& c) {
  list.open("scheduler", "The learning rate over time; absent: constant. Advances once per applied step.");
  list("type", c.type,
       {.meaning = "WarmupLR, WarmupDecayLR, WarmupCosineLR, LRRangeTest or OneCycle, exactly as written here.",
        .absent = "none",
        .type_names = true});
  list.open("params", "The schedule's parameters; one that the type does not take is refused.");
  SchedulerParams& p = c.params;
  list("warmup_min_lr", p.warmup_min_lr,
       {.meaning = "Rate at the start of the warm-up; the first two updates run at it.",
        .range = kAtLeastZero,
        .automatic = "0",
        .takers = "WarmupLR WarmupDecayLR"});
  list("warmup_max_lr", p.warmup_max_lr,
       {.meaning = "Rate at the end of the warm-up; absent: each group's lr under WarmupLR, 0.001 under WarmupDecayLR.",
        .range = kAtLeastZero,
        .automatic = "the optimizer's lr",
        .takers = "WarmupLR WarmupDecayLR",
        .absent = "see meaning"});
  list("warmup_num_steps", p.warmup_num_steps,
       {.meaning = "Updates of warm-up.", .range = kAtLeastOne, .automatic = "the default", .takers = kWarmups});
  list("warmup_type", p.warmup_type, {.meaning = "Shape of the warm-up: log or linear.", .takers = kWarmups});
  list("total_num_steps", p.total_num_steps,
       {.meaning = "Updates until the rate has decayed; required.",
        .range = kAtLeastOne,
        .automatic = "the run's number of steps",
        .takers = "WarmupDecayLR WarmupCosineLR",
        .absent = "required"});
  list("warmup_min_ratio", p.warmup_min_ratio,
       {.meaning = "First rate as a share of the group's lr.", .range = kAtLeastZero, .takers = "WarmupCosineLR"});
  list("cos_min_ratio", p.cos_min_ratio,
       {.meaning = "Last rate as a share of the group's lr.", .range = kAtLeastZero, .takers = "WarmupCosineLR"});
  list("lr_range_test_min_lr", p.lr_range_test_min_lr,
       {.meaning = "First rate of the test.", .range = kAtLeastZero, .takers = "LRRangeTest"});
  list("lr_range_test_step_size", p.lr_range_test_step_size,
       {.meaning = "Updates per rise.", .range = kAtLeastOne, .takers = "LRRangeTest"});
  list("lr_range_test_step_rate", p.lr_range_test_step_rate,
       {.meaning = "Rise per step size, as a share of the first rate.", .takers = "LRRangeTest"});
  list("lr_range_test_staircase", p.lr_range_test_staircase,
       {.meaning = "Rises in stairs, not continuously.", .takers = "LRRangeTest"});
  list("cycle_min_lr", p.cycle_min_lr,
       {.meaning = "Lowest rate; required.", .range = kAtLeastZero, .takers = "OneCycle", .absent = "required"});
  list("cycle_max_lr", p.cycle_max_lr,
       {.meaning = "Highest rate; required.", .range = kAtLeastZero, .takers = "OneCycle", .absent = "required"});
  list("decay_lr_rate", p.decay_lr_rate,
       {.meaning = "Decay of the rate after the cycle, per decay_step_size.",
        .range = kAtLeastZero,
        .takers = "OneCycle"});
  list("cycle_first_step_size", p.cycle_first_step_size,
       {.meaning = "Updates of the rise.", .range = kAtLeastOne, .takers = "OneCycle"});
  list("cycle_second_step_size", p.cycle_second_step_size,
       {.meaning = "Updates of the fall; absent: those of the rise.", .range = kAtLeastOne, .takers = "OneCycle"});
  list("cycle_first_stair_count", p.cycle_first_stair_count,
       {.meaning = "Stairs of the rise; 0: none.", .range = kAtLeastZero, .takers = "OneCycle"});
  list("cycle_second_stair_count", p.cycle_second_stair_count,
       {.meaning = "Stairs of the fall; absent: those of the rise.", .range = kAtLeastZero, .takers = "OneCycle"});
  list("decay_step_size", p.decay_step_size,
       {.meaning = "Updates per decay after the cycle; 0: no decay.", .range = kAtLeastZero, .takers = "OneCycle"});
  list("cycle_momentum", p.cycle_momentum,
       {.meaning = "Cycles the first beta against the rate, and sets the second to 0.99.", .takers = "OneCycle"});
  list("cycle_min_mom", p.cycle_min_mom, {.meaning = "Lowest momentum.", .range = kBelowOne, .takers = "OneCycle"});
  list("cycle_max_mom", p.cycle_max_mom, {.meaning = "Highest momentum.", .range = kBelowOne, .takers = "OneCycle"});
  list("decay_mom_rate", p.decay_mom_rate,
       {.meaning = "Growth of the momentum after the cycle, per decay_step_size.",
        .range = kAtLeastZero,
        .takers = "OneCycle"});
  list("last_batch_iteration", p.last_batch_iteration,
       {.meaning = "Position at the start; -1 is the beginning.", .range = {.low = -1}});
  list.close();
  list.close();
}

}  // namespace lockstep::config
