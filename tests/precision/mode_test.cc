#include "precision/mode.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

namespace lockstep::precision {
namespace {

Mode mode_of_text(const std::string& keys) {
  return mode_of(Config::from_text(R"({"train_batch_size": 1, )" + keys + "}", "test.json", {.world_size = 1}));
}

TEST(ModeOf, NothingIsFp32WithoutAScale) {
  const Mode mode = mode_of_text(R"("steps_per_print": 1)");
  EXPECT_EQ(mode.weights, DataType::fp32);
  EXPECT_FALSE(mode.product_type());
  EXPECT_FALSE(mode.scaler.dynamic);
  EXPECT_EQ(mode.scaler.scale, 1);
}

TEST(ModeOf, Fp16IsDynamicUnlessAScaleIsGiven) {
  const Mode dynamic = mode_of_text(R"("fp16": {"enabled": true, "initial_scale_power": 5, "hysteresis": 3})");
  EXPECT_EQ(dynamic.weights, DataType::fp16);
  EXPECT_TRUE(dynamic.scaler.dynamic);
  EXPECT_EQ(dynamic.scaler.scale, 32);
  EXPECT_EQ(dynamic.scaler.hysteresis, 3);
  const Mode fixed = mode_of_text(R"("fp16": {"enabled": true, "loss_scale": 128})");
  EXPECT_FALSE(fixed.scaler.dynamic);
  EXPECT_EQ(fixed.scaler.scale, 128);
}

TEST(ModeOf, Bf16HasNoScale) {
  for (const char* name : {"bf16", "bfloat16"}) {
    const Mode mode = mode_of_text('"' + std::string(name) + R"(": {"enabled": true})");
    EXPECT_EQ(mode.weights, DataType::bf16);
    EXPECT_TRUE(mode.master_weights);
    EXPECT_EQ(mode.scaler.scale, 1);
  }
}

TEST(ModeOf, AutocastKeepsWeightsInFp32) {
  const Mode bf16 = mode_of_text(R"("torch_autocast": {"enabled": true, "dtype": "bfloat16"})");
  EXPECT_EQ(bf16.weights, DataType::fp32);
  EXPECT_EQ(bf16.autocast, DataType::bf16);
  EXPECT_EQ(bf16.scaler.scale, 1);
  for (const char* keys :
       {R"("torch_autocast": {"enabled": true, "dtype": "fp16"})", R"("amp": {"enabled": true})",
        R"("amp": {"enabled": true, "fp16_backend": "torch"})", R"("amp": {"enabled": true, "opt_level": "O1"})"}) {
    const Mode mode = mode_of_text(keys);
    EXPECT_EQ(mode.weights, DataType::fp32) << keys;
    EXPECT_EQ(mode.autocast, DataType::fp16) << keys;
    EXPECT_TRUE(mode.scaler.dynamic) << keys;
    EXPECT_EQ(mode.scaler.scale, 65536) << keys;
    EXPECT_EQ(mode.scaler.window, 2000) << keys;
    EXPECT_EQ(mode.scaler.hysteresis, 1) << keys;
  }
}

TEST(ModeOf, ApexsLevelsAreTheirDocumentation) {
  EXPECT_FALSE(mode_of_text(R"("amp": {"enabled": true, "opt_level": "O0"})").product_type());
  const Mode o2 = mode_of_text(R"("amp": {"enabled": true, "opt_level": "O2", "max_loss_scale": 1024})");
  EXPECT_EQ(o2.weights, DataType::fp16);
  EXPECT_TRUE(o2.master_weights);
  EXPECT_TRUE(o2.casts_inputs);
  EXPECT_TRUE(o2.scaler.dynamic);
  EXPECT_EQ(o2.scaler.max_scale, 1024);
  const Mode o3 = mode_of_text(R"("amp": {"enabled": true, "opt_level": "O3"})");
  EXPECT_EQ(o3.weights, DataType::fp16);
  EXPECT_FALSE(o3.master_weights);
  EXPECT_FALSE(o3.scaler.dynamic);
  EXPECT_EQ(o3.scaler.scale, 1);
  const Mode fixed = mode_of_text(R"("amp": {"enabled": true, "opt_level": "O2", "loss_scale": 256})");
  EXPECT_FALSE(fixed.scaler.dynamic);
  EXPECT_EQ(fixed.scaler.scale, 256);
}

}  // namespace
}  // namespace lockstep::precision
