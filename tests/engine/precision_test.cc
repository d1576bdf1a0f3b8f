// Training in 16 bits: the stages agree to the bit, the scaler follows its goldens, and its state survives a resume.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>

#include "engine/stage_outcomes.h"
#include "lockstep/error.h"

namespace lockstep {
namespace {

using namespace testing_models;

constexpr int kStages = 4;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

const char* const kModes[] = {R"(, "bf16": {"enabled": true})",
                              R"(, "fp16": {"enabled": true, "initial_scale_power": 8, "auto_cast": true})",
                              R"(, "fp16": {"enabled": true, "loss_scale": 128, "auto_cast": true})"};

/// The engine's inputs are fp32: bf16 needs a model that casts them, as every model of tokens has none.
LayerStack half_model(const TinyOptions& options = {}) {
  class Cast final : public Layer {
   public:
    std::vector<ParameterSpec> describe() const override { return {}; }
    void build(std::span<const at::Tensor>) override {}
    std::vector<at::Tensor> forward(std::span<const at::Tensor> inputs) override {
      return {inputs[0].to(at::kBFloat16)};
    }
  };
  LayerStack model = tiny(options);
  model.layers.insert(model.layers.begin(), std::make_shared<Cast>());
  return model;
}

std::string stage_text(int stage, const std::string& more) {
  return R"(, "zero_optimization": {"stage": )" + std::to_string(stage) + R"(, "reduce_bucket_size": 64})" + more;
}

class HalfStages : public testing::TestWithParam<std::tuple<int /*world*/, int /*accumulation*/, int /*mode*/>> {};

TEST_P(HalfStages, AreBitIdentical) {
  const auto [world, accumulation, mode] = GetParam();
  const TinyOptions model{.frozen_middle = world == 3, .tied = world % 2 == 0};
  for (const char* reduce_at : {"boundary", "micro_batch"}) {
    const auto outcome_at = [&](int stage, int64_t bucket, bool overlap, int switches) {
      return outcome(model, world, accumulation, kModes[mode] + zero_text(stage, bucket, overlap, reduce_at, switches),
                     mode == 0 ? half_model : tiny);
    };
    const Outcome expected = outcome_at(0, 1000000, false, 7);
    int round = world + accumulation + mode;
    for (int stage = 0; stage < kStages; ++stage) {
      const Outcome got = outcome_at(stage, round % 2 == 0 ? 7 : 64, round % 3 == 0, round % 16);
      ++round;
      EXPECT_EQ(got.numbers, expected.numbers) << "stage " << stage << " " << reduce_at;
      ASSERT_EQ(got.values.size(), expected.values.size());
      for (const auto& [name, values] : expected.values)
        EXPECT_TRUE(same_bits(got.values.at(name), values)) << "stage " << stage << " " << reduce_at << " " << name;
    }
    for (const double number : expected.numbers) EXPECT_TRUE(std::isfinite(number));
    EXPECT_LT(expected.numbers[expected.numbers.size() - 2], 0.7 * expected.numbers[0]);
  }
}

INSTANTIATE_TEST_SUITE_P(Cross, HalfStages,
                         testing::Combine(testing::Values(1, 2, 3, 4), testing::Values(1, 3),
                                          testing::Values(0, 1, 2)));

/// The loop as one would write it by hand: fp16 weights, a scaled loss, fp32 masters, AdamW.
class PlainLoop {
 public:
  PlainLoop(const std::map<std::string, at::Tensor>& start, double scale) : scale_(scale) {
    std::vector<at::Tensor> next;
    const auto build = [&](auto& layer) {
      next.clear();
      for (const ParameterSpec& spec : layer.describe()) {
        masters_.push_back(start.at(spec.name).to(at::kFloat).clone());
        weights_.push_back(masters_.back().to(at::kHalf).detach().requires_grad_());
        moments_.push_back({at::zeros_like(masters_.back()), at::zeros_like(masters_.back())});
        next.push_back(weights_.back());
      }
      layer.build(next);
    };
    for (const auto& layer : model_.layers) build(*layer);
    build(*model_.head);
  }

  /// Loss and norm.
  std::pair<double, double> step(const Batch& batch) {
    std::vector<at::Tensor> hidden{batch.input.to(at::kHalf)};
    for (const auto& layer : model_.layers) hidden = layer->forward(hidden);
    const at::Tensor loss = model_.head->loss(hidden[0], batch.target).to(at::kFloat);
    (loss * scale_).backward();
    ++steps_;
    double squares = 0;
    for (size_t i = 0; i < weights_.size(); ++i) {
      const at::Tensor gradient = weights_[i].grad().to(at::kFloat) / scale_;
      squares += gradient.square().sum().item<double>();
      auto& [first, second] = moments_[i];
      first = 0.9 * first + 0.1 * gradient;
      second = 0.999 * second + 0.001 * gradient * gradient;
      const at::Tensor deviation = (second / (1 - std::pow(0.999, steps_))).sqrt() + 1e-8;
      masters_[i] = masters_[i] * (1 - 0.05 * 0.1) - 0.05 * (first / (1 - std::pow(0.9, steps_))) / deviation;
      weights_[i].mutable_grad().reset();
      weights_[i].detach().copy_(masters_[i]);
    }
    return {loss.item<double>(), std::sqrt(squares)};
  }

 private:
  LayerStack model_ = tiny();
  double scale_;
  int steps_ = 0;
  std::vector<at::Tensor> masters_, weights_;
  std::vector<std::array<at::Tensor, 2>> moments_;
};

TEST(Fp16Test, FollowsAPlainLoop) {
  for (const char* mode : {kModes[1], kModes[2]}) {
    comm::run_ranks(2, [&](Communicator& group) {
      Engine engine = make_engine(tiny(), group, config_text(18, 1, stage_text(2, mode)));
      std::map<std::string, at::Tensor> start;
      {
        const auto scope = engine.gather_parameters({"*"});
        for (const std::string& name : scope.names()) start[name] = scope[name].clone();
      }
      PlainLoop plain(start, engine.loss_scale());
      for (int64_t step = 0; step < 20; ++step) {
        const StepReport report = run_step(engine, group, 18, 1, step);
        const auto [loss, norm] = plain.step(global_batch(step));
        // fp16 holds 11 bits; the halves of the batch are rounded apart.
        EXPECT_NEAR(report.loss, loss, 2e-3 * loss + 1e-4) << "step " << step;
        EXPECT_NEAR(report.grad_norm, norm, 1e-2 * norm + 1e-3) << "step " << step;
      }
    });
  }
}

/// What a run of steps showed on every rank; 'o': the loss of `bad_rank` (-1: of all) overflows backward, 'c': clean.
struct Story {
  std::vector<double> scales{};  ///< After each step.
  int64_t skipped = 0;
  int64_t applied = 0;
  std::string end{};  ///< Of a DivergedError.
};

Story run_steps(int stage, const std::string& fp16, const std::string& steps, int bad_rank) {
  Story run;
  comm::run_ranks(2, [&](Communicator& group) {
    const std::string mode = R"(, "fp16": {"enabled": true, "auto_cast": true, )" + fp16 + "}";
    Engine engine = make_engine(tiny(), group, config_text(9, 1, stage_text(stage, mode)));
    const Batch batch = global_batch(0);
    for (const char step : steps) {
      const at::Tensor loss = engine.forward(batch.input.narrow(0, 0, 9), batch.target.narrow(0, 0, 9));
      const bool bad = step == 'o' && (bad_rank < 0 || bad_rank == group.rank());
      // The loss stays finite; its gradients overflow.
      engine.backward(bad ? loss + (loss * 1e30 - (loss * 1e30).detach()) : loss);
      try {
        engine.step();
      } catch (const DivergedError& error) {
        if (group.rank() == 0) run.end = error.what();
        return;
      }
      EXPECT_EQ(engine.report()->skipped, step == 'o');
      if (group.rank() == 0) run.scales.push_back(engine.loss_scale());
    }
    if (group.rank() != 0) return;
    run.skipped = engine.skipped_steps();
    run.applied = engine.applied_steps();
  });
  return run;
}

TEST(ScalerTest, FollowsItsGoldensAtEveryStageAndRank) {
  const std::string start = R"("initial_scale_power": 4, "loss_scale_window": 3)";
  for (int stage = 0; stage < kStages; ++stage) {
    for (const int bad_rank : {0, 1, -1}) {
      const Story mixed = run_steps(stage, start, "ooocccccoo", bad_rank);
      EXPECT_THAT(mixed.scales, testing::ElementsAre(16, 8, 4, 4, 4, 4, 8, 8, 8, 4));
      EXPECT_EQ(mixed.skipped, 5);
      EXPECT_EQ(mixed.applied, 5);
    }
    EXPECT_THAT(run_steps(stage, start, "ccccccccc", 0).scales,
                testing::ElementsAre(16, 16, 16, 32, 32, 32, 64, 64, 64));
    EXPECT_THAT(run_steps(stage, start + R"(, "consecutive_hysteresis": true)", "ococoo", 1).scales,
                testing::ElementsAre(16, 16, 16, 16, 16, 8));
    const Story floor = run_steps(stage, R"("initial_scale_power": 2, "hysteresis": 1)", "ooo", 1);
    EXPECT_THAT(floor.scales, testing::ElementsAre(2, 1));
    EXPECT_THAT(floor.end, testing::HasSubstr("gradient of "));
    EXPECT_THAT(floor.end, testing::HasSubstr("on rank 1"));
  }
}

TEST(ScalerTest, AllOverflowingEndsAtTheFloorAndNotBefore) {
  const Story run = run_steps(2, R"("initial_scale_power": 16)", std::string(20, 'o'), 0);
  ASSERT_EQ(run.scales.size(), 17U);
  EXPECT_EQ(run.scales[0], 65536);
  EXPECT_EQ(run.scales[1], 32768);
  EXPECT_EQ(run.scales[16], 1);
  EXPECT_FALSE(run.end.empty());
}

TEST(ScalerTest, AStaticScaleStaysAndSkips) {
  for (int stage = 0; stage < kStages; ++stage) {
    const Story run = run_steps(stage, R"("loss_scale": 128)", "cccocccc", 0);
    EXPECT_THAT(run.scales, testing::Each(128));
    EXPECT_EQ(run.skipped, 1);
    EXPECT_EQ(run.applied, 7);
  }
}

TEST(ScalerTest, AnInfiniteLossIsNamedAndLeavesTheScale) {
  comm::run_ranks(2, [&](Communicator& group) {
    std::vector<std::string> lines;
    const std::string mode = R"(, "fp16": {"enabled": true, "auto_cast": true, "initial_scale_power": 4})";
    Engine engine = make_engine(
        tiny(), group, config_text(9, 1, stage_text(1, mode)),
        {.log = Log([&](LogLevel, std::string_view line) { lines.emplace_back(line); }, LogLevel::warning)});
    const Batch batch = global_batch(0);
    const at::Tensor loss = engine.forward(batch.input.narrow(0, 0, 9), batch.target.narrow(0, 0, 9));
    engine.backward(group.rank() == 1 ? loss * kInfinity : loss);
    engine.step();
    EXPECT_TRUE(engine.report()->skipped);
    EXPECT_EQ(engine.loss_scale(), 16);
    if (group.rank() != 0) return;
    EXPECT_THAT(lines, testing::Contains(testing::AllOf(testing::HasSubstr("in loss"), testing::HasSubstr("rank 1"))));
  });
}

// The scale, the clean steps since its last change and the tolerance go on where they were.
TEST(ScalerTest, StateSurvivesAResume) {
  const std::string folder = testing::TempDir() + "lockstep_scaler";
  const std::string text = config_text(
      9, 1,
      stage_text(
          2, R"(, "fp16": {"enabled": true, "auto_cast": true, "initial_scale_power": 4, "loss_scale_window": 3})"));
  std::filesystem::remove_all(folder);
  comm::run_ranks(2, [&](Communicator& group) {
    const Batch batch = global_batch(0);
    const auto step = [&](Engine& engine, char kind) {
      const at::Tensor loss = engine.forward(batch.input.narrow(0, 0, 9), batch.target.narrow(0, 0, 9));
      engine.backward(kind == 'o' ? loss + (loss * 1e30 - (loss * 1e30).detach()) : loss);
      engine.step();
      return engine.loss_scale();
    };
    const std::string before = "ooocc";
    const std::string after = "cccoo";
    Engine engine = make_engine(tiny(), group, text);
    for (const char kind : before) step(engine, kind);
    engine.save_checkpoint(folder);
    std::vector<double> expected;
    for (const char kind : after) expected.push_back(step(engine, kind));
    EXPECT_THAT(expected, testing::ElementsAre(4, 8, 8, 8, 4));
    Engine resumed = make_engine(tiny(), group, text);
    resumed.load_checkpoint(folder);
    EXPECT_EQ(resumed.skipped_steps(), 3);
    std::vector<double> got;
    for (const char kind : after) got.push_back(step(resumed, kind));
    EXPECT_EQ(got, expected);
  });
}

// One value that is not finite leaves state and schedule as they were; bf16 has no scale to blame.
TEST(NonFiniteTest, OneBadGradientInBf16IsSkippedAndForgotten) {
  for (int stage = 0; stage < kStages; ++stage) {
    comm::run_ranks(2, [&](Communicator& group) {
      Engine engine = make_engine(half_model(), group, config_text(18, 1, stage_text(stage, kModes[0])));
      for (int64_t step = 0; step < 4; ++step) {
        const Batch batch = global_batch(step);
        const int64_t first = group.rank() * 18;
        const at::Tensor loss = engine.forward(batch.input.narrow(0, first, 18), batch.target.narrow(0, first, 18));
        engine.backward(step == 1 && group.rank() == 1 ? loss * std::nan("") : loss);
        engine.step();
        EXPECT_EQ(engine.report()->skipped, step == 1);
      }
      EXPECT_EQ(engine.skipped_steps(), 1);
      EXPECT_EQ(engine.applied_steps(), 3);
      EXPECT_TRUE(std::isfinite(engine.report()->loss));
      EXPECT_TRUE(at::isfinite(engine.optimizer_state("first.weight", "exp_avg")).all().item<bool>());
    });
  }
}

// A norm that grows from step to step has kept the gradients of the steps before.
TEST(NonFiniteTest, GradientsOfAStepDoNotReachTheNext) {
  for (int stage = 0; stage < kStages; ++stage) {
    comm::run_ranks(2, [&](Communicator& group) {
      const std::string text = R"({"train_micro_batch_size_per_gpu": 18, "bf16": {"enabled": true},
        "optimizer": {"type": "SGD", "params": {"lr": 1e-12}})" +
                               stage_text(stage, "") + "}";
      Engine engine = make_engine(half_model(), group, text);
      const Batch batch = global_batch(0);
      std::vector<double> norms;
      for (int step = 0; step < 5; ++step) {
        engine.backward(engine.forward(batch.input.narrow(0, 0, 18), batch.target.narrow(0, 0, 18)));
        engine.step();
        norms.push_back(engine.report()->grad_norm);
      }
      EXPECT_THAT(norms, testing::Each(norms[0]));
    });
  }
}

/// loss = sum(weight * input): the gradient is the input.
class Dot final : public LossLayer {
 public:
  std::vector<ParameterSpec> describe() const override { return {{.name = "weight", .shape = {3}}}; }
  void build(std::span<const at::Tensor> parameters) override { weight_ = parameters[0]; }
  at::Tensor logits(const at::Tensor& input) override { return input * weight_; }
  at::Tensor loss(const at::Tensor& input, const at::Tensor& /*labels*/) override { return logits(input).sum(); }

 private:
  at::Tensor weight_;
};

// Large gradients that become infinite on the way, small ones that vanish: a bf16 run whose gradients travel as fp16.
TEST(TransferTest, LargeAndSmallGradientsSurviveInTheirOwnType) {
  for (int stage = 0; stage < kStages; ++stage) {
    for (const char* wire : {"", R"(, "communication_data_type": "bf16")", R"(, "communication_data_type": "fp32")"}) {
      comm::run_ranks(2, [&](Communicator& group) {
        LayerStack model;
        model.head = std::make_shared<Dot>();
        model.training = std::make_shared<bool>(true);
        Engine engine = make_engine(model, group, config_text(1, 1, stage_text(stage, kModes[0] + std::string(wire))));
        const at::Tensor input = at::tensor({1e6, 1e-7, 1.0}, at::kDouble).to(at::kBFloat16);
        engine.backward(engine.forward(input, at::zeros({1}, at::kLong)));
        const at::Tensor gradient = engine.gradient("weight").to(at::kFloat);
        EXPECT_TRUE(at::equal(gradient, input.to(at::kFloat))) << "stage " << stage << wire;
        engine.step();
        EXPECT_FALSE(engine.report()->skipped);
      });
    }
  }
}

// Parameters that do not train come back from a checkpoint too, whatever the engine began with.
TEST(FrozenTest, ParametersComeBackInEveryModeAndStage) {
  const std::string folder = testing::TempDir() + "lockstep_frozen";
  for (int stage = 0; stage < kStages; ++stage) {
    for (const std::string& mode : {std::string(), std::string(kModes[0]), std::string(kModes[1])}) {
      std::filesystem::remove_all(folder);
      comm::run_ranks(2, [&](Communicator& group) {
        const auto make = [&](uint64_t seed) {
          const TinyOptions options{.frozen_middle = true};
          return make_engine(mode == kModes[0] ? half_model(options) : tiny(options), group,
                             config_text(18, 1, stage_text(stage, mode)), {.seed = seed});
        };
        const auto middle = [](Engine& engine) {
          const auto scope = engine.gather_parameters({"middle.weight"});
          return scope["middle.weight"].to(at::kFloat).clone();
        };
        Engine first = make(1);
        first.save_checkpoint(folder);
        Engine second = make(2);
        EXPECT_FALSE(at::equal(middle(second), middle(first)));
        second.load_checkpoint(folder);
        EXPECT_TRUE(at::equal(middle(second), middle(first))) << "stage " << stage << mode;
      });
    }
  }
}

}  // namespace
}  // namespace lockstep
