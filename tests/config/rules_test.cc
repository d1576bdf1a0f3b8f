// What may not stand together: each row of the validation matrix, each alone and each legal neighbour.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "config/parse.h"

namespace lockstep::config {
namespace {

using testing::HasSubstr;
using testing::Not;

struct Rule {
  const char* rest;  ///< Beside a batch size and AdamW.
  const char* path;  ///< Of the problem.
  const char* words;
  int64_t world = 1;
};
void PrintTo(const Rule& rule, std::ostream* out) { *out << rule.rest; }

class Refused : public testing::TestWithParam<Rule> {};

TEST_P(Refused, AtItsPath) {
  const Rule& rule = GetParam();
  const auto problems = problems_of(whole(rule.rest), {.world_size = rule.world});
  bool found = false;
  for (const std::string& problem : problems) {
    found = found || (problem.find(std::string(": ") + rule.path + ": ") != std::string::npos &&
                      problem.find(rule.words) != std::string::npos);
    EXPECT_THAT(problem, HasSubstr("; ")) << "a problem and its fix";
  }
  EXPECT_TRUE(found) << testing::PrintToString(problems);
}

#define ZERO(rest) "\"zero_optimization\": {" rest "}"
const Rule kRules[] = {
    {"\"fp16\": {\"enabled\": true}, \"bf16\": {\"enabled\": true}", "bf16.enabled",
     "fp16 and bf16 exclude each other"},
    {"\"fp16\": {\"enabled\": true}, \"amp\": {\"enabled\": true}", "amp.enabled", "exclude each other"},
    {"\"bf16\": {\"enabled\": true}, \"amp\": {\"enabled\": true}", "amp.enabled", "exclude each other"},
    {"\"fp16\": {\"enabled\": true}, \"torch_autocast\": {\"enabled\": true, \"dtype\": \"bf16\"}",
     "torch_autocast.enabled", "exclude each other"},
    {"\"amp\": {\"enabled\": true}, " ZERO("\"stage\": 1"), "amp.enabled", "zero_optimization.stage 1"},
    {"\"amp\": {\"enabled\": true, \"opt_level\": \"O4\"}", "amp.opt_level", "O0"},
    {"\"fp16\": {\"enabled\": true, \"loss_scale\": -1}", "fp16.loss_scale", "at least 0"},
    {"\"fp16\": {\"enabled\": true, \"loss_scale\": true}", "fp16.loss_scale", "not a number"},
    {"\"fp16\": {\"enabled\": true, \"loss_scale_window\": 0}", "fp16.loss_scale_window", "at least 1"},
    {"\"fp16\": {\"enabled\": true, \"min_loss_scale\": 0}", "fp16.min_loss_scale", "greater than 0"},
    {"\"fp16\": {\"enabled\": true, \"hysteresis\": 0}", "fp16.hysteresis", "at least 1"},
    {"\"fp16\": {\"enabled\": true, \"fp16_master_weights_and_grads\": true}", "fp16.fp16_master_weights_and_grads",
     "needs ZeRO"},
    {"\"bf16\": {\"enabled\": true, \"bf16_master_weights_and_grads\": true}", "bf16.bf16_master_weights_and_grads",
     "needs ZeRO"},
    {"\"fp16\": {\"enabled\": true, \"fp16_master_weights_and_grads\": true}, " ZERO("\"stage\": 2"),
     "fp16.fp16_master_weights_and_grads", "offload_optimizer.device"},
    {"\"bf16\": {\"enabled\": true, \"bf16_master_weights_and_grads\": true}, " ZERO("\"stage\": 2"),
     "bf16.bf16_master_weights_and_grads", "offload_optimizer.device"},
    {"\"bf16\": {\"enabled\": true, \"bf16_optimizer_states\": true}", "bf16.bf16_optimizer_states",
     "needs bf16_master_weights_and_grads"},
    {"\"bf16\": {\"enabled\": true, \"check_grad_overflow\": false}", "bf16.check_grad_overflow", "write true"},
    {"\"gradient_allreduce_op\": \"sum\", " ZERO("\"stage\": 3"), "gradient_allreduce_op", "stage 3"},
    {"\"gradient_allreduce_op\": \"sum\", \"compile\": {\"deepcompile\": true}", "gradient_allreduce_op",
     "deepcompile"},
    {"\"gradient_allreduce_op\": \"sum\", " ZERO("\"stage\": 2, \"zenflow\": {}"), "gradient_allreduce_op", "zenflow"},
    {"\"gradient_predivide_factor\": -1", "gradient_predivide_factor", "greater than 0"},
    {"\"gradient_clipping\": -0.5", "gradient_clipping", "at least 0"},
    {"\"steps_per_print\": -1", "steps_per_print", "at least 1"},
    {ZERO("\"offload_optimizer\": {\"device\": \"cpu\"}"), "zero_optimization.offload_optimizer", "needs stage 1-3"},
    {ZERO("\"stage\": 3, \"offload_param\": {\"device\": \"nvme\"}"), "zero_optimization.offload_param.nvme_path",
     "required"},
    {ZERO("\"stage\": 1, \"offload_optimizer\": {\"device\": \"nvme\"}"),
     "zero_optimization.offload_optimizer.nvme_path", "required"},
    {ZERO("\"stage\": 3, \"offload_optimizer\": {\"device\": \"nvme\", \"nvme_path\": \"/x\", \"buffer_count\": 3}"),
     "zero_optimization.offload_optimizer.buffer_count", "write 4 or more"},
    {ZERO(
         "\"stage\": 3, \"offload_optimizer\": {\"device\": \"nvme\", \"nvme_path\": \"/x\", \"pipeline_read\": true}"),
     "zero_optimization.offload_optimizer.buffer_count", "write 8 or more"},
    {ZERO("\"stage\": 2, \"offload_optimizer\": {\"device\": \"cpu\", \"ratio\": 0.5}"),
     "zero_optimization.offload_optimizer.ratio", "needs stage 3"},
    {ZERO("\"stage\": 3, \"offload_optimizer\": {\"device\": \"cpu\", \"ratio\": 1.5}"),
     "zero_optimization.offload_optimizer.ratio", "from 0 to 1"},
    {ZERO("\"allgather_bucket_size\": 7"), "zero_optimization.allgather_bucket_size", "7 is odd; write 8"},
    {"\"pipeline\": {\"enabled\": true}, \"elasticity\": {\"enabled\": true, \"version\": 0.1}", "elasticity.version",
     "write 0.2"},
    {"\"pipeline\": {\"enabled\": true, \"schedule\": \"zigzag\"}", "pipeline.schedule", "write \"1f1b\" or \"gpipe\""},
    {"\"scheduler\": {\"type\": \"WarmupLR\", \"params\": {\"warmup_num_steps\": 0}}",
     "scheduler.params.warmup_num_steps", "at least 1"},
    {"\"scheduler\": {\"type\": \"WarmupLR\", \"params\": {\"warmup_num_steps\": 2.5}}",
     "scheduler.params.warmup_num_steps", "not a whole number"},
    {"\"scheduler\": {\"type\": \"WarmupDecayLR\"}", "scheduler.params.total_num_steps", "required by WarmupDecayLR"},
    {"\"scheduler\": {\"type\": \"WarmupCosineLR\", \"params\": {}}", "scheduler.params.total_num_steps", "required"},
    {"\"scheduler\": {\"type\": \"WarmupDecayLR\", \"params\": {\"total_num_steps\": 10, \"warmup_num_steps\": 10}}",
     "scheduler.params.total_num_steps", "past the warm-up's 10"},
    {"\"scheduler\": {\"type\": \"OneCycle\", \"params\": {\"cycle_max_lr\": 1}}", "scheduler.params.cycle_min_lr",
     "required"},
    {"\"scheduler\": {\"type\": \"OneCycle\", \"params\": {\"cycle_min_lr\": 2, \"cycle_max_lr\": 1}}",
     "scheduler.params.cycle_min_lr", "swap the two"},
    {"\"scheduler\": {\"type\": \"OneCycle\", \"params\": {\"cycle_min_lr\": [1, 1], \"cycle_max_lr\": [2, 2, 2]}}",
     "scheduler.params.cycle_min_lr", "2 values beside 3"},
    {"\"scheduler\": {\"type\": \"warmuplr\"}", "scheduler.type", "write \"WarmupLR\""},
    {"\"scheduler\": {\"params\": {}}", "scheduler.type", "missing"},
    {"\"scheduler\": {\"type\": \"WarmupLR\", \"params\": {\"total_num_steps\": 5}}",
     "scheduler.params.total_num_steps", "WarmupLR does not take it"},
    {ZERO("\"stage\": 3, \"mics_shard_size\": 3"), "zero_optimization.mics_shard_size",
     "does not divide the 4 replicas", 4},
    {ZERO("\"stage\": 3, \"mics_shard_size\": 0"), "zero_optimization.mics_shard_size", "-1 for off"},
    {ZERO("\"stage\": 3, \"zero_hpz_partition_size\": 8"), "zero_optimization.zero_hpz_partition_size",
     "does not divide", 4},
    {"\"elasticity\": {\"enabled\": true}", "train_batch_size", "elasticity chooses the batch"},
    {ZERO("\"stage\": 1, \"cpu_offload\": true, \"offload_optimizer\": {\"device\": \"cpu\"}"),
     "zero_optimization.cpu_offload", "an old name of zero_optimization.offload_optimizer, which is given too"},
    {ZERO("\"stage\": 3, \"offload_param\": {\"device\": \"cpu\"}, \"cpu_offload_param\": true"),
     "zero_optimization.cpu_offload_param", "given too"},
    {ZERO("\"stage\": 3, \"stage3_gather_16bit_weights_on_model_save\": true, "
          "\"stage3_gather_fp16_weights_on_model_save\": true"),
     "zero_optimization.stage3_gather_fp16_weights_on_model_save", "given too"},
    {ZERO("\"stage\": 3, \"prefetch_bucket_size\": 1, \"stage3_prefetch_bucket_size\": 1"),
     "zero_optimization.stage3_prefetch_bucket_size", "given twice"},
    {"\"bfloat16\": {\"enabled\": true}, \"bf16\": {\"enabled\": true}", "bfloat16",
     "an old name of bf16, which is given too"},
    {"\"allgather_size\": 8, " ZERO("\"allgather_bucket_size\": 8"), "zero_optimization.allgather_bucket_size",
     "given twice"},
    {ZERO("\"legacy_stage1\": true"), "zero_optimization.legacy_stage1", "remove the key"},
    {ZERO("\"grad_hooks\": true"), "zero_optimization.grad_hooks", "remove it"},
    {"\"managed_gradient_accumulation\": false, \"pipeline\": {\"enabled\": true}", "managed_gradient_accumulation",
     "pipeline"},
    {"\"managed_gradient_accumulation\": false, \"amp\": {\"enabled\": true}", "managed_gradient_accumulation", "amp"},
    {"\"managed_gradient_accumulation\": false, \"compile\": {\"deepcompile\": true}", "managed_gradient_accumulation",
     "deepcompile"},
    {ZERO("\"stage\": 3, \"elastic_checkpoint\": true"), "zero_optimization.elastic_checkpoint", "stage 3"},
    {"\"torch_autocast\": {\"enabled\": true}", "torch_autocast.dtype", "required"},
    {"\"torch_autocast\": {\"enabled\": true, \"dtype\": \"fp32\"}", "torch_autocast.dtype", "16 bits"},
    {"\"torch_autocast\": {\"enabled\": true, \"dtype\": \"bf16\"}, " ZERO(
         "\"stage\": 3, \"zero_quantized_weights\": true"),
     "zero_optimization.zero_quantized_weights", "torch_autocast"},
    {"\"sparse_gradients\": true, " ZERO("\"stage\": 1"), "sparse_gradients", "needs stage 0"},
    {"\"communication_data_type\": \"int8\"", "communication_data_type", "int8"},
    {"\"checkpoint\": {\"enabled\": true}", "checkpoint.path", "required"},
    {"\"checkpoint\": {\"enabled\": true, \"path\": \"x\", \"save_interval\": 0}", "checkpoint.save_interval",
     "at least 1"},
    {"\"checkpoint\": {\"prefix\": \"a/b\"}", "checkpoint.prefix", "without a slash"},
    {"\"checkpoint\": {\"tag_validation\": \"Perhaps\"}", "checkpoint.tag_validation", "\"Fail\""},
    {"\"activation_checkpointing\": {\"checkpoint_ratio\": 1.5}", "activation_checkpointing.checkpoint_ratio",
     "from 0 to 1"},
    {"\"data_types\": {\"param_dtype\": \"bf16\"}", "data_types.param_dtype", "differs"},
    {ZERO("\"stage\": 2, \"zenflow\": {\"select_interval\": 1, \"update_interval\": 2}"),
     "zero_optimization.zenflow.select_interval", "below update_interval"},
    {"\"data_parallel_size\": 3", "data_parallel_size", "3 is not the number", 4},
};
INSTANTIATE_TEST_SUITE_P(Matrix, Refused, testing::ValuesIn(kRules));

/// Whole files where the optimizer matters.
struct Optimizer {
  const char* optimizer;
  const char* rest;
  const char* words;
};
void PrintTo(const Optimizer& row, std::ostream* out) { *out << row.optimizer; }
class OptimizerRule : public testing::TestWithParam<Optimizer> {};
TEST_P(OptimizerRule, IsNamed) {
  const std::string text =
      std::string("{\"train_batch_size\": 8, \"optimizer\": ") + GetParam().optimizer + GetParam().rest + "}";
  EXPECT_TRUE(any_holds(problems_of(text), GetParam().words)) << testing::PrintToString(problems_of(text));
}
const Optimizer kOptimizers[] = {
    {R"({"type": "Lamb"})", R"(, "fp16": {"enabled": true, "loss_scale": 128})",
     "fp16.loss_scale: Lamb needs dynamic scaling"},
    {R"({"type": "OneBitLamb"})", R"(, "fp16": {"enabled": true, "loss_scale": 128})",
     "OneBitLamb needs dynamic scaling"},
    {R"({"type": "Muon"})", "", "Muon needs zero_optimization.stage 1"},
    {R"({"type": "Muon"})", R"(, "zero_optimization": {"stage": 3})", "reduce_scatter false"},
    {R"({"type": "Adam", "params": {"max_grad_norm": 1}})", "", "write \"gradient_clipping\" at the top level"},
    {R"({"type": "SGD", "params": {"nesterov": true}})", "", "needs momentum above 0"},
    {R"({"type": "Lamb", "params": {"min_coeff": 20}})", "", "above max_coeff"},
    {R"({"type": "OneBitLamb", "params": {"factor_min": 9}})", "", "above factor_max"},
    {R"({"type": "Muon", "params": {"ns_method": "x"}})", "", "\"gram\" or \"standard\""},
    {R"({"type": "Lion"})",
     R"(, "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu", "ratio": 0.5}})",
     "needs Adam or AdamW, not Lion"},
    {R"({"type": "Adamax"})", "", "not yet built"},
    {R"({"type": "AdamW", "params": {"lr": -1}})", "", "at least 0"},
};
INSTANTIATE_TEST_SUITE_P(Matrix, OptimizerRule, testing::ValuesIn(kOptimizers));

TEST(Rules, AScheduleNeedsAnOptimizer) {
  EXPECT_TRUE(
      any_holds(problems_of(R"({"train_batch_size": 8, "scheduler": {"type": "WarmupLR"}})"), "without an optimizer"));
}

TEST(Rules, WhatDeepSpeedRefusesAndWeDoNot) {
  for (const char* rest : {
           ZERO("\"stage\": 2") ", \"prescale_gradients\": true, \"gradient_predivide_factor\": 2",
           ZERO("\"stage\": 3") ", \"pipeline\": {\"enabled\": true}",
           ZERO("\"stage\": 1, \"overlap_comm\": true") ", \"managed_gradient_accumulation\": false",
           ZERO("\"stage\": 1, \"offload_optimizer\": {\"device\": \"nvme\", \"nvme_path\": \"/x\"}"),
           "\"activation_checkpointing\": {\"enabled\": true, \"contiguous_memory_optimization\": true}",
       }) {
    for (const std::string& problem : problems_of(whole(rest)))
      EXPECT_THAT(problem, HasSubstr("is not yet built")) << rest;
  }
}

TEST(Rules, OldNamesAreReadWithAWarning) {
  const Config bf16 = parse(whole(R"("bfloat16": {"enabled": false})"));
  EXPECT_FALSE(bf16.bf16.enabled);
  const Config stage = parse(whole(R"("zero_optimization": false)"));
  EXPECT_EQ(stage.zero_optimization.stage, 0);
  EXPECT_TRUE(any_holds(stage.warnings(), "write {\"stage\": 0}"));
  const Config bucket = parse(whole(R"("allgather_size": 8)"));
  EXPECT_EQ(bucket.zero_optimization.allgather_bucket_size, 8);
  EXPECT_TRUE(any_holds(bucket.warnings(), "an old name; write zero_optimization.allgather_bucket_size"));
  const Config live = parse(whole(R"("zero_optimization": {"max_live_parameters": 9, "cpu_offload": false})"));
  EXPECT_EQ(live.zero_optimization.stage3_max_live_parameters, 9);
  EXPECT_TRUE(any_holds(live.warnings(), "write zero_optimization.offload_optimizer.device"));
  EXPECT_TRUE(
      any_holds(problems_of(whole(R"("zero_optimization": {"stage": 2, "cpu_offload": true})")), "optimizer offload"));
  EXPECT_EQ(parse(whole(R"("zero_optimization": true)")).zero_optimization.stage, 1);
}

TEST(Rules, EveryGivenZeroKeyIsAnswered) {
  // Obeyed at this stage; every other key of the block needs a line when it is given.
  const std::set<std::string> obeyed{"stage",
                                     "overlap_comm",
                                     "reduce_bucket_size",
                                     "stage3_prefetch_bucket_size",
                                     "stage3_max_live_parameters",
                                     "allgather_bucket_size"};
  const std::vector<std::pair<std::string, std::string>> given{{"contiguous_gradients", "false"},
                                                               {"reduce_scatter", "false"},
                                                               {"allgather_partitions", "false"},
                                                               {"allgather_bucket_size", "6"},
                                                               {"round_robin_gradients", "true"},
                                                               {"sub_group_size", "7"},
                                                               {"ignore_unused_parameters", "false"},
                                                               {"load_from_fp32_weights", "false"},
                                                               {"use_multi_rank_bucket_allreduce", "false"},
                                                               {"stage3_param_persistence_threshold", "5"},
                                                               {"stage3_model_persistence_threshold", "5"},
                                                               {"stage3_max_reuse_distance", "5"},
                                                               {"stage3_gather_16bit_weights_on_model_save", "true"},
                                                               {"stage3_module_granularity_threshold", "5"},
                                                               {"stage3_use_all_reduce_for_fetch_params", "true"},
                                                               {"stage3_allgather_sequential", "true"},
                                                               {"memory_efficient_linear", "false"},
                                                               {"save_muon_momentum_buffer_in_memory", "true"},
                                                               {"override_module_apply", "false"},
                                                               {"log_trace_cache_warnings", "true"},
                                                               {"enable_sanity_checks", "true"},
                                                               {"pipeline_loading_checkpoint", "true"},
                                                               {"mics_hierarchical_params_gather", "true"},
                                                               {"offload_param", R"({"pin_memory": true})"},
                                                               {"offload_optimizer", R"({"buffer_count": 5})"},
                                                               {"leaf_module", R"({"names": ["a"]})"},
                                                               {"reduce_bucket_size", "9"},
                                                               {"overlap_comm", "false"},
                                                               {"stage3_prefetch_bucket_size", "9"},
                                                               {"stage3_max_live_parameters", "9"}};
  for (const auto& [key, value] : given) {
    const Config config = parse(whole("\"zero_optimization\": {\"stage\": 3, \"" + key + "\": " + value + "}"));
    EXPECT_EQ(any_holds(config.notices(), "zero_optimization." + key), !obeyed.contains(key)) << key;
  }
  EXPECT_FALSE(
      any_holds(parse(whole(R"("zero_optimization": {"stage": 2, "ignore_unused_parameters": false})")).notices(),
                "ignore_unused_parameters"));
}

TEST(Rules, KeysThatChangeNothingGetOneLineEach) {
  const Config config =
      parse(whole(R"("prescale_gradients": true, "zero_optimization": {"stage": 0, "stage3_max_live_parameters": 5,
      "offload_param": {"device": "none"}}, "disable_allgather": true, "fp16": {"enabled": false, "hysteresis": 2},
      "aio": {"block_size": 4096}, "curriculum_learning": {"enabled": false}, "pipeline": {"enabled": false, "micro_batch_size": 8})"));
  for (const char* line :
       {"prescale_gradients: changes nothing",
        "stage3_max_live_parameters: changes nothing: it matters at stage 3 only",
        "offload_param.device: changes nothing", "disable_allgather: changes nothing",
        "fp16.hysteresis: changes nothing: fp16.enabled is not true", "aio.block_size: changes nothing",
        "curriculum_learning: changes nothing", "pipeline.micro_batch_size: changes nothing"}) {
    EXPECT_TRUE(any_holds(config.notices(), line)) << line;
  }
  EXPECT_EQ(config.notices().size(), 8U) << testing::PrintToString(config.notices());
}

TEST(Rules, LikelyMistakesAreWarnedOf) {
  const Config config = parse(whole(R"("zero_optimization": {"offload_param": {"device": "cpu"}})"));
  EXPECT_TRUE(any_holds(config.warnings(), "zero_optimization.offload_param: changes nothing at stage 0"));
  EXPECT_EQ(config.warnings().size(), 1U);
}

TEST(Rules, UnbuiltBlocksAreRefusedOnlyWhenSwitchedOn) {
  for (const char* block : {"nebula", "expert_parallel", "hybrid_engine", "curriculum_learning", "data_efficiency",
                            "progressive_layer_drop", "autotuning", "eigenvalue", "quantize_training"}) {
    const std::string name = block;
    EXPECT_TRUE(any_holds(problems_of(whole("\"" + name + "\": {\"enabled\": true}")), name + ": ")) << name;
    EXPECT_TRUE(problems_of(whole("\"" + name + "\": {\"enabled\": false}")).empty()) << name;
  }
  for (const char* block : {"sparse_attention", "weight_quantization", "datastates_ckpt", "tensor_parallel"})
    EXPECT_TRUE(any_holds(problems_of(whole("\"" + std::string(block) + "\": {}")), "not yet built")) << block;
}

}  // namespace
}  // namespace lockstep::config
