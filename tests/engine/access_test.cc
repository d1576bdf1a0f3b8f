// Whole tensors by name, the same at every stage.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/training_runs.h"
#include "lockstep/error.h"

namespace lockstep {
namespace {

using namespace testing_models;
using testing::ElementsAre;
using testing::HasSubstr;

std::string stage_text(int stage) {
  return R"(, "zero_optimization": {"stage": )" + std::to_string(stage) + R"(, "reduce_bucket_size": 64})";
}

std::string failure(const std::function<void()>& body) {
  try {
    body();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

const std::vector<std::string> kNames{"first.weight", "first.bias", "last.weight", "last.bias", "head.shift"};

TEST(AccessTest, GradientsNormsAndStatesAreAlikeAtEveryStage) {
  for (const int world : {1, 2, 3}) {
    std::vector<std::vector<at::Tensor>> of_stages;
    std::vector<std::vector<double>> norms_of_stages;
    for (const int stage : {0, 1, 2, 3}) {
      std::vector<at::Tensor>& seen = of_stages.emplace_back();
      std::vector<double>& norms = norms_of_stages.emplace_back();
      comm::run_ranks(world, [&](Communicator& group) {
        const int64_t micro = kGlobalBatch / world;
        Engine engine = make_engine(tiny({.tied = true}), group, config_text(micro, 1, stage_text(stage)));
        run_step(engine, group, micro, 1, 0);
        const Batch batch = global_batch(1);
        const int64_t begin = group.rank() * micro;
        engine.backward(engine.forward(batch.input.narrow(0, begin, micro), batch.target.narrow(0, begin, micro)));
        std::vector<at::Tensor> mine;
        for (const std::string& name : kNames) {
          mine.push_back(engine.gradient(name));
          mine.push_back(engine.optimizer_state(name, "exp_avg"));
          mine.push_back(engine.optimizer_state(name, "exp_avg_sq"));
        }
        const std::vector<NamedNorm> named = engine.gradient_norms();
        engine.step();
        double squares = 0;
        for (size_t i = 0; i < named.size(); ++i) {
          EXPECT_EQ(named[i].name, kNames[i]);
          EXPECT_NEAR(named[i].norm, mine[3 * i].norm().item<double>(), 1e-6);
          squares += named[i].norm * named[i].norm;
        }
        EXPECT_NEAR(std::sqrt(squares), engine.report()->grad_norm, 1e-9);
        if (group.rank() != 0) return;
        seen = mine;
        for (const NamedNorm& each : named) norms.push_back(each.norm);
      });
      EXPECT_EQ(norms, norms_of_stages.front()) << "stage " << stage;
      for (size_t i = 0; i < seen.size(); ++i)
        EXPECT_TRUE(at::equal(seen[i], of_stages.front()[i])) << "stage " << stage << " tensor " << i;
      EXPECT_GT(seen[1].abs().sum().item<double>(), 0);
    }
  }
}

TEST(AccessTest, AnEditByRankZeroIsEveryones) {
  for (const int stage : {0, 1, 2, 3}) {
    for (const int world : {1, 3}) {
      comm::run_ranks(world, [&](Communicator& group) {
        Engine engine = make_engine(tiny({.frozen_middle = true}), group, config_text(12, 1, stage_text(stage)));
        {
          Engine::GatheredParameters scope = engine.gather_parameters({"first.*", "middle.weight"});
          EXPECT_THAT(scope.names(), ElementsAre("first.weight", "first.bias", "middle.weight"));
          EXPECT_THAT(failure([&] { (void)scope["last.bias"]; }), HasSubstr("not among"));
          // Other ranks' writes do not count.
          scope["first.weight"].fill_(group.rank() == 0 ? 0.25 : 99);
          scope["middle.weight"].fill_(group.rank() == 0 ? 0.5 : 99);
        }
        Engine::GatheredParameters again = engine.gather_parameters({"*"});
        EXPECT_TRUE(at::equal(again["first.weight"], at::full({7, 4}, 0.25)));
        EXPECT_TRUE(at::equal(again["middle.weight"], at::full({7, 7}, 0.5)));
        EXPECT_FALSE(at::equal(again["head.weight"], at::full({3, 7}, 0.25)));
        again.close();
        EXPECT_THAT(failure([&] { (void)again["first.weight"]; }), HasSubstr("closed"));
        EXPECT_FALSE(run_step(engine, group, 12, 1, 0).skipped);
      });
    }
  }
}

TEST(AccessTest, FrozenForAWhileKeepsValueAndStates) {
  for (const int world : {1, 2}) {
    std::vector<std::vector<double>> numbers;
    for (const int stage : {0, 1, 2, 3}) {
      std::vector<double>& of_stage = numbers.emplace_back();
      comm::run_ranks(world, [&](Communicator& group) {
        const int64_t micro = kGlobalBatch / world;
        const auto step = [&](Engine& engine, int64_t index) {
          const StepReport report = run_step(engine, group, micro, 1, index);
          if (group.rank() == 0) of_stage.insert(of_stage.end(), {report.loss, report.grad_norm});
        };
        Engine engine = make_engine(tiny(), group, config_text(micro, 1, stage_text(stage)));
        const auto weight = [&] { return engine.gather_parameters({"first.weight"})["first.weight"].clone(); };
        step(engine, 0);
        engine.set_trainable("first.*", false);
        const at::Tensor value = weight();
        const at::Tensor state = engine.optimizer_state("first.weight", "exp_avg");
        step(engine, 1);
        EXPECT_TRUE(at::equal(weight(), value));
        EXPECT_TRUE(at::equal(engine.optimizer_state("first.weight", "exp_avg"), state));
        engine.set_trainable("first.*", true);
        step(engine, 2);
        EXPECT_FALSE(at::equal(weight(), value));
      });
      EXPECT_EQ(of_stage, numbers.front()) << "stage " << stage;
    }
  }
}

TEST(AccessTest, SaysWhatIsMissing) {
  comm::run_ranks(1, [](Communicator& group) {
    Engine engine = make_engine(tiny({.frozen_middle = true}), group, config_text(12, 1));
    EXPECT_THAT(failure([&] { (void)engine.gradient("first.weight"); }), HasSubstr("between the last backward"));
    EXPECT_THAT(failure([&] { (void)engine.gather_parameters({"firs.weight"}); }),
                HasSubstr("no parameter firs.weight"));
    EXPECT_THAT(failure([&] { (void)engine.optimizer_state("first.weight", "momentum"); }),
                HasSubstr("it has: exp_avg, exp_avg_sq"));
    EXPECT_THAT(failure([&] { (void)engine.optimizer_state("middle.weight", "exp_avg"); }), HasSubstr("was frozen"));
    EXPECT_THAT(failure([&] { engine.set_trainable("middle.*", true); }), HasSubstr("was frozen"));
    EXPECT_THAT(failure([&] { engine.set_trainable("nothing", true); }), HasSubstr("no parameter nothing"));
  });
}

}  // namespace
}  // namespace lockstep
