// Faults that users of other engines met, at every ZeRO stage: what each would change is looked for.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <vector>

#include "engine/training_runs.h"
#include "lockstep/error.h"
#include "lockstep/models.h"

namespace lockstep {
namespace {

using namespace testing_models;

constexpr int kStages = 4;

std::string stage_text(int stage, const std::string& more = "") {
  return R"(, "zero_optimization": {"stage": )" + std::to_string(stage) +
         R"(, "reduce_bucket_size": 64, "allgather_bucket_size": 128})" + more;
}

/// Every parameter's elements.
std::vector<double> weights_of(Engine& engine) {
  std::vector<double> values;
  const auto scope = engine.gather_parameters({"*"});
  for (const std::string& name : scope.names()) {
    const at::Tensor flat = scope[name].reshape({-1}).to(at::kDouble);
    values.insert(values.end(), flat.const_data_ptr<double>(), flat.const_data_ptr<double>() + flat.numel());
  }
  return values;
}

/// A layer that is not always used.
class Branch final : public Layer {
 public:
  explicit Branch(std::shared_ptr<bool> taken) : taken_(std::move(taken)) {}
  std::vector<ParameterSpec> describe() const override {
    return {{.name = "branch.weight", .shape = {7, 7}, .initialization = {.deviation = 0.5}}};
  }
  void build(std::span<const at::Tensor> parameters) override { weight_ = parameters[0]; }
  std::vector<at::Tensor> forward(std::span<const at::Tensor> inputs) override {
    return {*taken_ ? inputs[0] + at::matmul(inputs[0], weight_) : inputs[0]};
  }

 private:
  const std::shared_ptr<bool> taken_;
  at::Tensor weight_;
};

// A gradient summed where it should be averaged shows as a norm that grows with the accumulation.
TEST(FieldFaults, AccumulationAveragesGradients) {
  for (int stage = 0; stage < kStages; ++stage) {
    std::map<int64_t, std::vector<double>> numbers;
    for (const int64_t accumulation : {1, 3, 9}) {
      comm::run_ranks(2, [&](Communicator& group) {
        const int64_t micro = kGlobalBatch / group.size() / accumulation;
        Engine engine = make_engine(tiny(), group, config_text(micro, accumulation, stage_text(stage)));
        for (int64_t step = 0; step < 10; ++step) {
          const StepReport report = run_step(engine, group, micro, accumulation, step);
          if (group.rank() == 0)
            numbers[accumulation].insert(numbers[accumulation].end(), {report.loss, report.grad_norm});
        }
      });
    }
    for (const int64_t accumulation : {3, 9})
      for (size_t i = 0; i < numbers[1].size(); ++i)
        EXPECT_NEAR(numbers[accumulation][i] / numbers[1][i], 1, 1e-5) << "stage " << stage;
  }
}

// A norm that is local to a shard, or multiplied by the ranks; a clipped value that is reported.
TEST(FieldFaults, TheNormIsTheWholeModelsAndClippingMeetsIt) {
  for (int stage = 0; stage < kStages; ++stage) {
    for (const int world : {1, 2, 4}) {
      comm::run_ranks(world, [&](Communicator& group) {
        const std::string text = R"({"train_micro_batch_size_per_gpu": 9, "gradient_clipping": 1.0,
          "optimizer": {"type": "SGD", "params": {"lr": 1.0}})" +
                                 stage_text(stage) + "}";
        const Batch batch = global_batch(0);  // The same samples on every rank.
        const auto first_loss = [&](Engine& engine) {
          return engine.forward(batch.input.narrow(0, 0, 9), batch.target.narrow(0, 0, 9));
        };
        Engine probe = make_engine(tiny(), group, text);
        probe.backward(first_loss(probe));
        double squares = 0;
        for (const NamedNorm& each : probe.gradient_norms()) squares += each.norm * each.norm;

        Engine engine = make_engine(tiny(), group, text);
        const std::vector<double> before = weights_of(engine);
        engine.backward(first_loss(engine) * (10 / std::sqrt(squares)));
        engine.step();
        const std::vector<double> after = weights_of(engine);
        double change = 0;
        for (size_t i = 0; i < before.size(); ++i) change += (after[i] - before[i]) * (after[i] - before[i]);
        EXPECT_NEAR(engine.report()->grad_norm, 10, 1e-4) << "stage " << stage;
        EXPECT_NEAR(std::sqrt(change), 1, 1e-5) << "stage " << stage;
      });
    }
  }
}

// A parameter without a gradient, on every rank or on one, at first or later: it counts as zeros.
TEST(FieldFaults, AGradientThatIsMissingCountsAsZeros) {
  enum class Unused { everywhere, on_one_rank, in_the_first_step };
  for (const Unused unused : {Unused::everywhere, Unused::on_one_rank, Unused::in_the_first_step}) {
    std::vector<double> expected;
    for (int stage = 0; stage < kStages; ++stage) {
      std::vector<double> got;
      comm::run_ranks(3, [&](Communicator& group) {
        const auto taken = std::make_shared<bool>(true);
        LayerStack model = tiny();
        model.layers.push_back(std::make_shared<Branch>(taken));
        Engine engine = make_engine(model, group, config_text(12, 1, stage_text(stage)));
        for (int64_t step = 0; step < 4; ++step) {
          *taken = unused == Unused::on_one_rank ? group.rank() != 1 : unused == Unused::in_the_first_step && step > 0;
          const StepReport report = run_step(engine, group, 12, 1, step);
          if (group.rank() == 0) got.insert(got.end(), {report.loss, report.grad_norm});
        }
        const std::vector<double> weights = weights_of(engine);
        if (group.rank() == 0) got.insert(got.end(), weights.begin(), weights.end());
      });
      if (stage == 0) expected = got;
      EXPECT_EQ(got, expected) << "stage " << stage << " case " << static_cast<int>(unused);
    }
  }
}

TEST(FieldFaults, AGradientThatIsMissingIsAnErrorOnEveryRankWhereTheConfigSaysSo) {
  for (const int stage : {1, 2}) {
    comm::run_ranks(3, [&](Communicator& group) {
      const auto taken = std::make_shared<bool>(true);
      LayerStack model = tiny();
      model.layers.push_back(std::make_shared<Branch>(taken));
      const std::string zero = R"(, "zero_optimization": {"ignore_unused_parameters": false, "stage": )";
      Engine engine = make_engine(model, group, config_text(12, 1, zero + std::to_string(stage) + "}"));
      run_step(engine, group, 12, 1, 0);
      const std::vector<double> before = weights_of(engine);
      *taken = group.rank() != 1;
      try {
        run_step(engine, group, 12, 1, 1);
        ADD_FAILURE() << "no error";
      } catch (const ConfigError& error) {
        EXPECT_NE(std::string(error.what()).find("rank 1: no backward of step 2 gave branch.weight"), std::string::npos)
            << error.what();
      }
      EXPECT_EQ(weights_of(engine), before);
      *taken = true;
      run_step(engine, group, 12, 1, 2);
      EXPECT_NE(weights_of(engine), before);
    });
  }
}

// Embedding gradients as indices and values: fewer bytes, the same bits.
TEST(FieldFaults, SparseGradientsChangeNoBit) {
  const models::Gpt2Options options{
      .layers = 1, .width = 64, .heads = 2, .positions = 16, .vocabulary = 500, .tied_head = false};
  for (const int64_t accumulation : {1, 2}) {
    for (const char* more :
         {"", R"(, "lockstep": {"reduce_at": "micro_batch"})", R"(, "communication_data_type": "bf16")"}) {
      std::vector<double> expected;
      std::vector<int64_t> sent;
      for (const char* sparse : {"false", "true"}) {
        comm::run_ranks(3, [&](Communicator& group) {
          Engine engine =
              make_engine(models::gpt2(options), group,
                          config_text(2, accumulation, std::string(R"(, "sparse_gradients": )") + sparse + more));
          std::vector<double> got;
          for (int64_t step = 0; step < 3; ++step) {
            for (int64_t micro = 0; micro < accumulation; ++micro) {
              const at::Tensor tokens = (at::arange(32).view({2, 16}) * (group.rank() + 3) + step * 7 + micro) % 500;
              engine.backward(engine.forward(tokens, tokens));
              engine.step();
            }
            got.insert(got.end(), {engine.report()->loss, engine.report()->grad_norm});
          }
          const std::vector<double> weights = weights_of(engine);
          got.insert(got.end(), weights.begin(), weights.end());
          if (group.rank() != 0) return;
          if (expected.empty()) expected = got;
          EXPECT_TRUE(got == expected) << "sparse " << sparse << " accumulation " << accumulation << more;
          sent.push_back(group.traffic().sent_bytes);
        });
      }
      EXPECT_LT(sent[1], sent[0]);
    }
  }
}

// Division before or after the sum, by one or another factor, twice or not at all.
TEST(FieldFaults, PredivisionChangesNoUpdate) {
  for (int stage = 0; stage < kStages; ++stage) {
    std::vector<double> expected;
    for (const char* keys : {R"(, "prescale_gradients": false)", R"(, "prescale_gradients": true)",
                             R"(, "prescale_gradients": true, "gradient_predivide_factor": 2.0)",
                             R"(, "prescale_gradients": true, "gradient_predivide_factor": 3.0)"}) {
      comm::run_ranks(3, [&](Communicator& group) {
        Engine engine = make_engine(tiny(), group, config_text(12, 1, keys + stage_text(stage)));
        for (int64_t step = 0; step < 3; ++step) run_step(engine, group, 12, 1, step);
        const std::vector<double> weights = weights_of(engine);
        if (group.rank() != 0) return;
        if (expected.empty()) expected = weights;
        EXPECT_EQ(weights, expected) << keys << " stage " << stage;
      });
    }
  }
}

// A type on the wire that is not the one that was asked for: large values become infinite, small ones zero.
TEST(FieldFaults, TheTypeOnTheWireIsTheOneAskedForAtEveryStage) {
  for (int stage = 0; stage < kStages; ++stage) {
    std::map<std::string, double> of_large;
    std::map<std::string, double> of_small;
    for (const char* type : {"fp32", "bf16", "fp16"}) {
      for (const double factor : {1e6, 1e-7}) {
        comm::run_ranks(2, [&](Communicator& group) {
          const std::string wire = std::string(R"(, "communication_data_type": ")") + type + '"';
          Engine engine = make_engine(tiny(), group, config_text(18, 1, wire + stage_text(stage)));
          const Batch batch = global_batch(0);
          engine.backward(engine.forward(batch.input, batch.target) * factor);
          engine.step();
          if (group.rank() == 0) (factor > 1 ? of_large : of_small)[type] = engine.report()->grad_norm / factor;
        });
      }
    }
    EXPECT_NEAR(of_large["bf16"] / of_large["fp32"], 1, 0.01) << "stage " << stage;
    EXPECT_NEAR(of_small["bf16"] / of_small["fp32"], 1, 0.01) << "stage " << stage;
    EXPECT_TRUE(std::isnan(of_large["fp16"])) << "stage " << stage;  // Skipped: fp16 ends at 65,504.
  }
}

}  // namespace
}  // namespace lockstep
