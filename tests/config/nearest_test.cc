// One wrong letter in each of thirty keys, at the top and inside blocks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/nearest.h"
#include "config/parse.h"

namespace lockstep::config {
namespace {

struct Typo {
  const char* section;  ///< Dotted; empty for the top level.
  const char* written;
  const char* meant;
};
void PrintTo(const Typo& typo, std::ostream* out) { *out << typo.written; }

class Misspelled : public testing::TestWithParam<Typo> {};

TEST_P(Misspelled, YieldsTheNearestLegalKey) {
  const Typo& typo = GetParam();
  std::string text = "\"" + std::string(typo.written) + "\": 1";
  std::string section = typo.section;
  while (!section.empty()) {
    const size_t dot = section.rfind('.');
    const std::string name = dot == std::string::npos ? section : section.substr(dot + 1);
    const bool typed = name == "optimizer" || name == "scheduler";
    const char* type = name == "optimizer" ? "AdamW" : "WarmupLR";
    text = "\"" + name + "\": {" + (typed ? "\"type\": \"" + std::string(type) + "\", " : "") + text + "}";
    section = dot == std::string::npos ? "" : section.substr(0, dot);
  }
  const auto problems = problems_of("{\"train_batch_size\": 8, " + text + "}");
  const std::string path = typo.section + std::string(*typo.section != '\0' ? "." : "") + typo.written;
  EXPECT_TRUE(any_holds(problems, path + ": unknown key; write \"" + typo.meant + "\""))
      << testing::PrintToString(problems);
}

const Typo kTypos[] = {
    {"", "train_batch_sise", "train_batch_size"},
    {"", "train_micro_batch_size_per_gpus", "train_micro_batch_size_per_gpu"},
    {"", "train_micro_batch_size", "train_micro_batch_size_per_gpu"},
    {"", "gradient_acumulation_steps", "gradient_accumulation_steps"},
    {"", "gradient_cliping", "gradient_clipping"},
    {"", "gradientClipping", "gradient_clipping"},
    {"", "steps_per_prnit", "steps_per_print"},
    {"", "wall_clock_breakdwn", "wall_clock_breakdown"},
    {"", "comunication_data_type", "communication_data_type"},
    {"", "zero_optimisation", "zero_optimization"},
    {"", "optimiser", "optimizer"},
    {"", "shceduler", "scheduler"},
    {"", "fp61", "fp16"},
    {"", "bf61", "bf16"},
    {"", "activation_checkpoint", "activation_checkpointing"},
    {"", "locksteps", "lockstep"},
    {"fp16", "enable", "enabled"},
    {"fp16", "loss_scale_windw", "loss_scale_window"},
    {"fp16", "hysterisis", "hysteresis"},
    {"bf16", "enabeld", "enabled"},
    {"zero_optimization", "stag", "stage"},
    {"zero_optimization", "overlap_com", "overlap_comm"},
    {"zero_optimization", "reduce_buckt_size", "reduce_bucket_size"},
    {"zero_optimization", "offload_optimiser", "offload_optimizer"},
    {"zero_optimization", "stage3_max_live_params", "stage3_max_live_parameters"},
    {"zero_optimization.offload_optimizer", "devise", "device"},
    {"zero_optimization.offload_param", "nvme-path", "nvme_path"},
    {"activation_checkpointing", "cpu_checkpoint", "cpu_checkpointing"},
    {"checkpoint", "save_intervall", "save_interval"},
    {"pipeline", "shedule", "schedule"},
    {"optimizer.params", "weight_deacy", "weight_decay"},
    {"optimizer.params", "epsilon", "eps"},
    {"scheduler.params", "warmup_max_lrr", "warmup_max_lr"},
    {"scheduler.params", "warmup_nums_step", "warmup_num_steps"},
    {"tensorboard", "output_pth", "output_path"},
    {"flops_profiler", "profil_step", "profile_step"},
    {"lockstep", "max_skiped_steps", "max_skipped_steps"},
    {"aio", "queue_dept", "queue_depth"},
};
INSTANTIATE_TEST_SUITE_P(Typos, Misspelled, testing::ValuesIn(kTypos));

TEST(Nearest, IsSilentWhereNothingIsNear) {
  const std::vector<std::string> names{"lr", "eps", "weight_decay"};
  EXPECT_EQ(nearest("xyzzy_plugh", names), std::nullopt);
  EXPECT_EQ(nearest("", names), std::nullopt);
  EXPECT_EQ(nearest(std::string(5000, 'a'), names), std::nullopt);
  EXPECT_EQ(nearest("weigth_decay", names), "weight_decay");
}

}  // namespace
}  // namespace lockstep::config
