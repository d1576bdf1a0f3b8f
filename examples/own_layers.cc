// A model of one's own layers, trained by ZeRO stage 3 on two ranks:  own_layers ds_config.json
// The engine asks each layer what parameters it has, shards them, and has them whole while the layer runs.
#include <ATen/ATen.h>

#include <cmath>
#include <cstdio>

#include "lockstep/config.h"
#include "lockstep/data.h"
#include "lockstep/engine.h"
#include "lockstep/error.h"
#include "lockstep/launch.h"

namespace {

/// The specs of a weight [out, in] and a bias.
std::vector<lockstep::ParameterSpec> linear_parameters(const std::string& name, int64_t in, int64_t out) {
  using Kind = lockstep::Initialization::Kind;
  const double deviation = 1 / std::sqrt(static_cast<double>(in));
  return {
      {.name = name + ".weight", .shape = {out, in}, .initialization = {.kind = Kind::normal, .deviation = deviation}},
      {.name = name + ".bias", .shape = {out}, .initialization = {.kind = Kind::zeros}}};
}

/// x -> x + tanh(W x + b).
class Residual final : public lockstep::Layer {
 public:
  Residual(std::string name, int64_t width) : name_(std::move(name)), width_(width) {}

  std::vector<lockstep::ParameterSpec> describe() const override { return linear_parameters(name_, width_, width_); }
  void build(std::span<const at::Tensor> parameters) override {
    weight_ = parameters[0];
    bias_ = parameters[1];
  }
  std::vector<at::Tensor> forward(std::span<const at::Tensor> inputs) override {
    return {inputs[0] + at::tanh(at::linear(inputs[0], weight_, bias_))};
  }

 private:
  const std::string name_;
  const int64_t width_;
  at::Tensor weight_;
  at::Tensor bias_;
};

/// The last layer: logits, and their cross entropy.
class Classifier final : public lockstep::LossLayer {
 public:
  Classifier(int64_t width, int64_t classes) : width_(width), classes_(classes) {}

  std::vector<lockstep::ParameterSpec> describe() const override { return linear_parameters("head", width_, classes_); }
  void build(std::span<const at::Tensor> parameters) override {
    weight_ = parameters[0];
    bias_ = parameters[1];
  }
  at::Tensor logits(const at::Tensor& hidden) override { return at::linear(hidden, weight_, bias_); }
  at::Tensor loss(const at::Tensor& hidden, const at::Tensor& labels) override {
    return at::cross_entropy_loss(logits(hidden), labels);
  }

 private:
  const int64_t width_;
  const int64_t classes_;
  at::Tensor weight_;
  at::Tensor bias_;
};

lockstep::LayerStack make_model() {
  lockstep::LayerStack model;
  for (int index = 0; index < 3; ++index)
    model.layers.push_back(std::make_shared<Residual>("residual." + std::to_string(index), 2));
  model.head = std::make_shared<Classifier>(2, 2);
  return model;
}

/// Points of the plane; the class is whether both coordinates have one sign.
lockstep::Batch points(int64_t count, const lockstep::World& world, int64_t step) {
  const auto index = at::arange(count) + static_cast<double>(world.rank + world.size * step) * count;
  const auto plane = at::stack({at::sin(index * 12.9898), at::sin(index * 78.233)}, 1);
  return {.input = plane, .target = (plane.select(1, 0) * plane.select(1, 1) > 0).to(at::kLong)};
}

void train(const std::string& config_file, const lockstep::World& world) {
  const auto config = lockstep::Config::from_file(config_file, {.world_size = world.size});
  auto engine = lockstep::initialize(make_model(), config, world);
  if (world.rank == 0) std::fputs(engine.plan_text().c_str(), stdout);
  double first = 0;
  while (engine.global_steps() < 300) {
    const auto batch = points(config.train_micro_batch_size_per_gpu, world, engine.micro_steps());
    engine.backward(engine.forward(batch.input, batch.target));
    engine.step();
    if (engine.global_steps() == 1) first = engine.report()->loss;
  }
  if (world.rank == 0) std::printf("loss: %.3f at first, %.3f at last\n", first, engine.report()->loss);
}

}  // namespace

int main(int count, char** arguments) {
  try {
    if (count != 2) throw lockstep::ConfigError("usage: own_layers ds_config.json");
    lockstep::launch::run_threads(2, [&](const lockstep::World& world) { train(arguments[1], world); });
  } catch (const lockstep::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
