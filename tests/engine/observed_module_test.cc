// A stock network that knows nothing of the engine trains alike at every stage.
// Heavy unit: torch::nn.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn.h>

#include <mutex>

#include "engine/parts.h"
#include "engine/training_runs.h"
#include "lockstep/error.h"
#include "lockstep/models.h"
#include "zero/parameter_store.h"
#include "zero/parameter_table.h"
#include "zero/unit_calls.h"

namespace lockstep {
namespace {

using testing::HasSubstr;

constexpr int64_t kVocabulary = 11, kWidth = 8, kLength = 5, kSamples = 12;

struct StockNetwork : torch::nn::Module {
  StockNetwork()
      : embedding(register_module("embedding", torch::nn::Embedding(kVocabulary, kWidth))),
        encoder(register_module(
            "encoder", torch::nn::TransformerEncoder(torch::nn::TransformerEncoderOptions(
                           torch::nn::TransformerEncoderLayerOptions(kWidth, 2).dim_feedforward(16).dropout(0), 3)))),
        lstm(register_module("lstm", torch::nn::LSTM(kWidth, kWidth))),
        convolution(register_module("convolution", torch::nn::Conv1d(kWidth, kWidth, 3))),
        norm(register_module("norm", torch::nn::BatchNorm1d(kWidth))),
        output(register_module("output", torch::nn::Linear(kWidth, kVocabulary))) {
    // Tied as users do it: the matrix that was registered stays a parameter, without a use.
    output->weight = embedding->weight;
  }
  at::Tensor forward(const at::Tensor& tokens) {
    at::Tensor hidden = encoder(embedding(tokens.t()));
    hidden = std::get<0>(lstm(hidden));
    hidden = norm(convolution(hidden.permute({1, 2, 0})));
    return output(hidden.mean(2));
  }
  torch::nn::Embedding embedding;
  torch::nn::TransformerEncoder encoder;
  torch::nn::LSTM lstm;
  torch::nn::Conv1d convolution;
  torch::nn::BatchNorm1d norm;
  torch::nn::Linear output;
};

std::shared_ptr<StockNetwork> make_network() {
  static std::mutex mutex;  // Ranks are threads, and the generator is everyone's.
  const std::lock_guard lock(mutex);
  torch::manual_seed(5);
  return std::make_shared<StockNetwork>();
}

using Body = std::function<at::Tensor(StockNetwork&, const at::Tensor&)>;

LayerStack wrap(
    const std::shared_ptr<StockNetwork>& network, const models::ModuleOptions& options = {},
    const Body& body = [](StockNetwork& net, const at::Tensor& input) { return net.forward(input); }) {
  return models::wrap_module(
      network,
      [net = network.get(), body](const at::Tensor& input, const at::Tensor& target) {
        return at::cross_entropy_loss(body(*net, input), target);
      },
      options);
}

Batch batch_of(int rank, int world, int64_t step) {
  const int64_t micro = kSamples / world;
  const at::Tensor all =
      (at::arange(kSamples * kLength) * 7 + at::arange(kSamples * kLength) / 3 + step * 5) % kVocabulary;
  const at::Tensor mine = all.to(at::kLong).view({kSamples, kLength}).narrow(0, rank * micro, micro);
  return {.input = mine, .target = mine.select(1, 2)};
}

std::string config(int world, int stage, int64_t max_live) {
  return R"({"train_micro_batch_size_per_gpu": )" + std::to_string(kSamples / world) +
         R"(, "optimizer": {"type": "AdamW", "params": {"lr": 0.01}}, "zero_optimization": {"stage": )" +
         std::to_string(stage) + R"(, "reduce_bucket_size": 300, "stage3_max_live_parameters": )" +
         std::to_string(max_live) + "}}";
}

struct Outcome {
  std::vector<double> numbers{};
  std::vector<at::Tensor> weights{};
  int64_t sent = 0;
};

Outcome train(int world, int stage, int64_t max_live, const models::ModuleOptions& options = {}) {
  Outcome outcome;
  comm::run_ranks(world, [&](Communicator& group) {
    const auto network = make_network();
    Engine engine = testing_models::make_engine(wrap(network, options), group, config(world, stage, max_live));
    for (int64_t step = 0; step < 4; ++step) {
      const Batch batch = batch_of(group.rank(), world, step);
      const int64_t before = group.traffic().sent_bytes;
      engine.backward(engine.forward(batch.input, batch.target));
      engine.step();
      if (group.rank() != 0) continue;
      outcome.sent = group.traffic().sent_bytes - before;
      outcome.numbers.insert(outcome.numbers.end(), {engine.report()->loss, engine.report()->grad_norm});
    }
    const double evaluated = engine.eval_batch(batch_of(0, 1, 9));
    const std::string folder = testing::TempDir() + "lockstep_observed";
    engine.export_weights(folder);
    if (group.rank() != 0) return;
    outcome.numbers.push_back(evaluated);
  });
  return outcome;
}

TEST(ObservedModuleTest, StagesAreBitIdentical) {
  for (const int world : {1, 2, 4}) {
    const Outcome expected = train(world, 0, 1000000);
    EXPECT_LT(expected.numbers[6], expected.numbers[0]);
    for (const int stage : {1, 2, 3}) {
      for (const int64_t max_live : {int64_t{0}, int64_t{1500}, int64_t{1000000}}) {
        if (stage < 3 && max_live > 0) continue;
        const Outcome got = train(world, stage, max_live);
        EXPECT_EQ(got.numbers, expected.numbers) << "stage " << stage << " world " << world << " live " << max_live;
        if (world == 1) continue;
        EXPECT_LE(static_cast<double>(got.sent), 2.2 * static_cast<double>(expected.sent))
            << "stage " << stage << " world " << world << " live " << max_live;
      }
    }
  }
}

TEST(ObservedModuleTest, UnitsAreNamedByTheUserOrByIndex) {
  const LayerStack automatic = wrap(make_network());
  std::vector<std::string> units = zero::make_parameter_table(automatic, {}).units;
  EXPECT_THAT(units, testing::ElementsAre("embedding", "encoder.layers.0", "encoder.layers.1", "encoder.layers.2",
                                          "lstm", "convolution", "norm", "output"));
  const models::ModuleOptions options{.units = {"encoder", "encoder.layers.1", "lstm.weight_ih_l0"}};
  units = zero::make_parameter_table(wrap(make_network(), options), {}).units;
  EXPECT_THAT(units, testing::ElementsAre("embedding", "encoder", "encoder.layers.1", "lstm.weight_ih_l0", "lstm",
                                          "convolution", "norm", "output"));
  EXPECT_EQ(train(2, 3, 0, options).numbers, train(2, 0, 0).numbers);
}

TEST(ObservedModuleTest, KeepsNoMoreWholeThanAllowed) {
  for (const int64_t max_live : {int64_t{0}, int64_t{2000}}) {
    comm::run_ranks(2, [&](Communicator& group) {
      const LayerStack model = wrap(make_network());
      const Config parsed = Config::from_text(config(2, 3, max_live), "test.json", {.world_size = 2});
      const plan::Plan plan = engine::plan_for(model, parsed, 2);
      zero::ParameterStore store(model, group, plan, {.prefetch_numel = 1000000, .max_live_numel = max_live}, 0, {});
      zero::UnitCalls calls(store, max_live);
      const Batch batch = batch_of(group.rank(), 2, 0);
      for (int pass = 0; pass < 2; ++pass) {
        const at::Tensor loss =
            calls.run(0, true, [&] { return std::vector<at::Tensor>{model.head->loss(batch.input, batch.target)}; })[0];
        calls.run_backward([&] { loss.backward(); });
      }
      int64_t largest = 0;
      for (const plan::UnitLayout& layout : plan.layouts) largest = std::max(largest, layout.numel);
      // The tied output's operator takes the weight of one unit and the bias of another.
      const int64_t together = plan.layouts.front().numel + plan.layouts.back().numel;
      EXPECT_LE(store.peak_whole_numel(), std::max({max_live, largest, together}));
      EXPECT_GE(store.peak_whole_numel(), largest);
      EXPECT_ANY_THROW((void)store.leaves()[0].sum().item<double>());
    });
  }
}

std::string failure(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(ObservedModuleTest, RefusesAWriteOfAParameter) {
  for (const bool in_list : {false, true}) {
    comm::run_ranks(2, [&](Communicator& group) {
      const LayerStack model = wrap(make_network(), {}, [&](StockNetwork& net, const at::Tensor& input) {
        const at::NoGradGuard no_grad;
        if (in_list)
          at::_foreach_add_({net.norm->bias, net.norm->weight}, 1);
        else
          net.norm->weight.add_(1);
        return net.forward(input);
      });
      Engine engine = testing_models::make_engine(model, group, config(2, 3, 0));
      const Batch batch = batch_of(group.rank(), 2, 0);
      EXPECT_THAT(failure([&] { (void)engine.forward(batch.input, batch.target); }),
                  testing::AllOf(HasSubstr("add_ writes a parameter of norm"), HasSubstr("stage 2")));
    });
  }
}

TEST(ObservedModuleTest, ARankThatTakesAnotherBranchIsTold) {
  std::vector<std::string> messages(2);
  comm::run_ranks(2,
                  [&](Communicator& group) {
                    const LayerStack model = wrap(make_network(), {}, [&](StockNetwork& net, const at::Tensor& input) {
                      const at::Tensor hidden = net.embedding(input).mean(1);
                      return net.output(group.rank() == 0 ? net.norm(hidden)
                                                          : std::get<0>(net.lstm(hidden.unsqueeze(0))).squeeze(0));
                    });
                    Engine engine = testing_models::make_engine(model, group, config(2, 3, 0));
                    const Batch batch = batch_of(group.rank(), 2, 0);
                    messages[static_cast<size_t>(group.rank())] =
                        failure([&] { engine.backward(engine.forward(batch.input, batch.target)); });
                  },
                  {.deadline = std::chrono::milliseconds(1000)});
  EXPECT_THAT(messages, testing::Contains(testing::AnyOf(HasSubstr("norm"), HasSubstr("lstm"))));
}

}  // namespace
}  // namespace lockstep
