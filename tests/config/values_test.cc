// Values: defaults, provenance, printing and reading back.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/draft.h"
#include "config/parse.h"

namespace lockstep::config {
namespace {

using testing::HasSubstr;

std::string default_of(const char* path) {
  Config config;
  const KeyList keys = KeyList::of(config);
  const Key* key = keys.find(path);
  return key == nullptr ? std::string("no such key: ") + path : json_text(key->field.get());
}

TEST(Values, DefaultsAreDeepSpeeds) {
  const std::pair<const char*, const char*> kExpected[] = {
      {"steps_per_print", "null"},
      {"wall_clock_breakdown", "false"},
      {"gradient_clipping", "1"},
      {"gradient_predivide_factor", "1"},
      {"prescale_gradients", "false"},
      {"gradient_allreduce_op", "\"mean\""},
      {"communication_data_type", "null"},
      {"managed_gradient_accumulation", "true"},
      {"sparse_gradients", "false"},
      {"fp16.loss_scale", "0"},
      {"fp16.initial_scale_power", "16"},
      {"fp16.loss_scale_window", "1000"},
      {"fp16.hysteresis", "2"},
      {"fp16.min_loss_scale", "1"},
      {"bf16.check_grad_overflow", "true"},
      {"optimizer.params.lr", "0.001"},
      {"optimizer.params.betas", "[0.9, 0.999]"},
      {"optimizer.params.eps", "1e-08"},
      {"optimizer.params.weight_decay", "0"},
      {"optimizer.params.adam_w_mode", "true"},
      {"optimizer.params.max_coeff", "10"},
      {"optimizer.params.min_coeff", "0.01"},
      {"optimizer.params.freeze_step", "100000"},
      {"optimizer.params.local_step_scaler", "32678"},
      {"scheduler.params.warmup_num_steps", "1000"},
      {"scheduler.params.warmup_type", "\"log\""},
      {"scheduler.params.cos_min_ratio", "0.0001"},
      {"scheduler.params.lr_range_test_min_lr", "[0.001]"},
      {"scheduler.params.cycle_first_step_size", "2000"},
      {"scheduler.params.cycle_second_step_size", "null"},
      {"scheduler.params.cycle_max_mom", "[0.9]"},
      {"scheduler.params.last_batch_iteration", "-1"},
      {"zero_optimization.stage", "0"},
      {"zero_optimization.contiguous_gradients", "true"},
      {"zero_optimization.reduce_scatter", "true"},
      {"zero_optimization.sub_group_size", "1000000000"},
      {"zero_optimization.stage3_prefetch_bucket_size", "50000000"},
      {"zero_optimization.stage3_param_persistence_threshold", "100000"},
      {"zero_optimization.stage3_max_live_parameters", "1000000000"},
      {"zero_optimization.overlap_comm", "null"},
      {"zero_optimization.zero_hpz_partition_size", "1"},
      {"zero_optimization.mics_shard_size", "-1"},
      {"zero_optimization.offload_param.buffer_count", "5"},
      {"zero_optimization.offload_param.buffer_size", "100000000"},
      {"zero_optimization.offload_optimizer.buffer_count", "4"},
      {"zero_optimization.offload_optimizer.ratio", "1"},
      {"zero_optimization.offload_optimizer.device", "\"none\""},
      {"zero_optimization.zenflow.topk_ratio", "0.1"},
      {"aio.block_size", "1048576"},
      {"aio.queue_depth", "8"},
      {"aio.intra_op_parallelism", "1"},
      {"aio.overlap_events", "true"},
      {"activation_checkpointing.partition_activations", "false"},
      {"pipeline.schedule", "\"1f1b\""},
      {"pipeline.stages", "null"},
      {"pipeline.activation_checkpoint_interval", "0"},
      {"checkpoint.tag_validation", "\"Warn\""},
      {"checkpoint.writer.io_buffer_size", "67108864"},
      {"tensorboard.job_name", "\"DeepSpeedJobName\""},
      {"wandb.project", "\"deepspeed\""},
      {"comet.samples_log_interval", "100"},
      {"comms_logger.prof_all", "true"},
      {"flops_profiler.module_depth", "-1"},
      {"flops_profiler.profile_step", "1"},
      {"timers.throughput.enabled", "true"},
      {"elasticity.version", "0.2"},
      {"elasticity.micro_batch_sizes", "[2, 4, 6]"},
      {"lockstep.deterministic", "false"},
      {"lockstep.reduce_at", "\"auto\""},
      {"lockstep.max_skipped_steps", "20"},
      {"lockstep.no_decay", "[]"},
  };
  for (const auto& [path, text] : kExpected) EXPECT_EQ(default_of(path), text) << path;
}

TEST(Values, TypesBringTheirOwnDefaults) {
  const auto params = [](const char* type) {
    return parse("{\"train_batch_size\": 8, \"optimizer\": {\"type\": \"" + std::string(type) + "\"}}")
        .optimizer.params;
  };
  EXPECT_EQ(params("adagrad").lr, 0.01);
  EXPECT_EQ(params("Adagrad").eps, 1e-10);
  EXPECT_EQ(params("RMSprop").lr, 0.01);
  EXPECT_EQ(params("SGD").lr, 0.001);
  EXPECT_EQ(parse(R"({"train_batch_size": 8, "optimizer": {"type": "ADAMW"}})").optimizer.type, "AdamW");
  const Config decay = parse(whole(R"("scheduler": {"type": "WarmupDecayLR", "params": {"total_num_steps": 2000}})"));
  EXPECT_EQ(decay.scheduler.params.warmup_max_lr, PerGroup{0.001});
  EXPECT_TRUE(parse(whole(R"("scheduler": {"type": "WarmupLR"})")).scheduler.params.warmup_max_lr.empty());
}

TEST(Values, AdamDecaysApartFromTheGradientUnlessToldOtherwise) {
  const auto adam = [](const char* params) {
    return parse(std::string(R"({"train_batch_size": 8, "optimizer": {"type": "Adam", "params": {)") + params + "}}}");
  };
  EXPECT_TRUE(adam("").optimizer.decoupled_decay());
  EXPECT_FALSE(adam("\"adam_w_mode\": false").optimizer.decoupled_decay());
  EXPECT_TRUE(any_holds(adam("\"weight_decay\": 0.1").notices(), "decays apart from the gradient"));
  EXPECT_TRUE(any_holds(parse(whole("")).notices(), "x") == false);
}

TEST(Values, ListsGiveOneValuePerGroup) {
  const Config config = parse(whole(R"("scheduler": {"type": "WarmupLR", "params": {"warmup_max_lr": [0.1, 0.2]}})"));
  EXPECT_EQ(config.scheduler.params.warmup_max_lr, (PerGroup{0.1, 0.2}));
}

TEST(Values, SpellingsOfAType) {
  for (const char* name : {"fp32", "float", "float32", "torch.float32"})
    EXPECT_EQ(parse(whole("\"communication_data_type\": \"" + std::string(name) + "\"")).communication_data_type,
              DataType::fp32);
}

TEST(Values, NullAtTheTopLevelIsAsIfAbsent) {
  const Config config = parse(whole(R"("gradient_clipping": null, "fp16": null, "steps_per_print": null)"));
  EXPECT_EQ(config.gradient_clipping, 1.0);
}

TEST(Values, ProvenanceSaysWhereAValueCameFrom) {
  const Config config = parse("{\n  \"train_batch_size\": 8,\n  \"gradient_clipping\": \"auto\"\n}", {.world_size = 2});
  EXPECT_EQ(config.provenance("train_batch_size").text(), "file, line 2, column 23");
  EXPECT_EQ(config.provenance("train_micro_batch_size_per_gpu").text(), "derived: total / (accumulation x replicas)");
  EXPECT_EQ(config.provenance("gradient_clipping").text(), "auto: the default");
  EXPECT_EQ(config.provenance("steps_per_print").text(), "default");
}

TEST(Values, TheEffectiveConfigShowsEveryKeyAndReadsBackEqual) {
  for (const char* optimizer : {"", "Adam", "AdamW", "SGD", "Adagrad", "RMSprop"}) {
    for (const char* scheduler :
         {"", R"("type": "WarmupLR")", R"("type": "WarmupDecayLR", "params": {"total_num_steps": 2000})",
          R"("type": "OneCycle", "params": {"cycle_min_lr": 0.1, "cycle_max_lr": [0.5, 1]})",
          R"("type": "WarmupCosineLR", "params": {"total_num_steps": 2000})", R"("type": "LRRangeTest")"}) {
      if (*optimizer == '\0' && *scheduler != '\0') continue;
      std::string text = R"({"train_batch_size": 32, "nebula": {"enabled": false, "load_path": null})";
      if (*optimizer != '\0') text += ", \"optimizer\": {\"type\": \"" + std::string(optimizer) + "\"}";
      if (*scheduler != '\0') text += ", \"scheduler\": {" + std::string(scheduler) + "}";
      const Config config = parse(text + "}", {.world_size = 4});
      const std::string printed = config.to_json_text();
      EXPECT_EQ(parse(printed, {.world_size = 4}), config) << printed;
      EXPECT_EQ(parse(printed, {.world_size = 4}).to_json_text(), printed);
    }
  }
  Config blank;
  const KeyList keys = KeyList::of(blank);
  const std::string listing = parse(whole("")).to_listing();
  for (const Key& key : keys.keys()) {
    const bool of_a_type = key.about.takers != nullptr || key.path.starts_with("scheduler") ||
                           key.path.find("zenflow") != std::string::npos || key.path.find("loco") != std::string::npos;
    if (of_a_type) continue;
    EXPECT_THAT(listing, HasSubstr(key.path + " = ")) << key.path;
  }
}

TEST(Values, ConfigsCompareByValueNotByFile) {
  EXPECT_EQ(parse("{\"train_batch_size\": 8}"), Config::from_text("{\n\n\"train_batch_size\": 8.0}", "other.json"));
  EXPECT_NE(parse("{\"train_batch_size\": 8}"), parse("{\"train_batch_size\": 16}"));
}

TEST(Values, EveryDeclarationIsComplete) {
  Config blank;
  const KeyList keys = KeyList::of(blank);
  EXPECT_GE(keys.keys().size(), 250U);
  for (const Key& key : keys.keys()) {
    EXPECT_FALSE(std::string(key.about.meaning).empty()) << key.path;
    EXPECT_EQ(keys.find(key.path), &key) << "declared twice: " << key.path;
    EXPECT_TRUE(key.about.only_if == nullptr || keys.find(key.about.only_if) != nullptr) << key.path;
    for (const char* text : {key.about.meaning, key.about.inert, key.about.cost}) {
      if (text == nullptr) continue;
      for (const char* c = text; *c != '\0'; ++c) EXPECT_GE(*c, ' ') << key.path;
    }
  }
}

TEST(Values, EveryDefaultLiesInItsRange) {
  Config blank;
  const KeyList keys = KeyList::of(blank);
  for (const Key& key : keys.keys()) {
    const Value value = key.field.get();
    // Required keys start at a value that no file may give.
    if (key.about.absent != nullptr) continue;
    const auto* real = std::get_if<double>(&value);
    const auto* whole_number = std::get_if<int64_t>(&value);
    EXPECT_TRUE(real == nullptr || key.about.range.holds(*real)) << key.path;
    EXPECT_TRUE(whole_number == nullptr || key.about.range.holds(static_cast<double>(*whole_number))) << key.path;
  }
}

}  // namespace
}  // namespace lockstep::config
