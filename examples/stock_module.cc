// LibTorch's own modules, unmodified, trained by ZeRO stage 3 on two ranks:  stock_module ds_config.json
// The task: which of eight tokens comes most often in a sequence.
#include <torch/nn.h>

#include <cstdio>
#include <mutex>

#include "lockstep/config.h"
#include "lockstep/data.h"
#include "lockstep/engine.h"
#include "lockstep/error.h"
#include "lockstep/launch.h"
#include "lockstep/models.h"

namespace {

constexpr int64_t kTokens = 8, kLength = 12, kWidth = 32;

/// Written for LibTorch: it knows nothing of Lockstep.
struct Network : torch::nn::Module {
  at::Tensor forward(const at::Tensor& tokens) { return output(encoder(embedding(tokens.t())).mean(0)); }

  torch::nn::Embedding embedding = register_module("embedding", torch::nn::Embedding(kTokens, kWidth));
  torch::nn::TransformerEncoder encoder = register_module(
      "encoder", torch::nn::TransformerEncoder(torch::nn::TransformerEncoderOptions(
                     torch::nn::TransformerEncoderLayerOptions(kWidth, 2).dim_feedforward(64).dropout(0), 2)));
  torch::nn::Linear output = register_module("output", torch::nn::Linear(kWidth, kTokens));
};

/// Every rank starts from the same weights.
std::shared_ptr<Network> make_network() {
  static std::mutex mutex;  // Ranks are threads here, and LibTorch's generator is one for all of them.
  const std::lock_guard lock(mutex);
  torch::manual_seed(1);
  return std::make_shared<Network>();
}

lockstep::Batch sequences(int64_t count, at::Generator generator) {
  const auto tokens = torch::randint(kTokens, {count, kLength}, generator, at::kLong);
  return {.input = tokens, .target = at::one_hot(tokens, kTokens).sum(1).argmax(1)};
}

void train(const std::string& config_file, const lockstep::World& world) {
  const auto config = lockstep::Config::from_file(config_file, {.world_size = world.size});
  const auto network = make_network();
  const auto model = lockstep::models::wrap_module(network, [&](const at::Tensor& input, const at::Tensor& target) {
    return at::cross_entropy_loss(network->forward(input), target);
  });
  auto engine = lockstep::initialize(model, config, world);
  if (world.rank == 0) std::fputs(engine.plan_text().c_str(), stdout);

  auto generator = at::make_generator<at::CPUGeneratorImpl>(static_cast<uint64_t>(world.rank));
  double first = 0;
  while (engine.global_steps() < 150) {
    const auto batch = sequences(config.train_micro_batch_size_per_gpu, generator);
    engine.backward(engine.forward(batch.input, batch.target));
    engine.step();
    if (engine.global_steps() == 1) first = engine.report()->loss;
  }
  if (world.rank == 0) std::printf("loss: %.3f at first, %.3f at last\n", first, engine.report()->loss);

  // Each rank holds half of every parameter; while the scope lives, all of the bias.
  auto scope = engine.gather_parameters({"output.bias"});
  const double norm = scope["output.bias"].norm().item<double>();
  scope.close();
  if (world.rank == 0) std::printf("|output.bias| = %.3f\n", norm);
}

}  // namespace

int main(int count, char** arguments) {
  try {
    if (count != 2) throw lockstep::ConfigError("usage: stock_module ds_config.json");
    lockstep::launch::run_threads(2, [&](const lockstep::World& world) { train(arguments[1], world); });
  } catch (const lockstep::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
