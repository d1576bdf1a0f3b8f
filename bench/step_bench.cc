// Whole training steps of gpt2-nano's shape on one thread: forward, backward, clip by norm, AdamW.  Counters: tokens
// per second of wall-clock time, and per second of processor time, which says more on a host that is busy. Arguments:
// sequences, tokens in each, vocabulary.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <benchmark/benchmark.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <ctime>
#include <map>

#include "kernels/adam.h"
#include "kernels/sums.h"
#include "lockstep/models.h"
#include "tensor/cpu_allocator.h"

namespace {

namespace kernels = lockstep::kernels;

struct Parameter {
  at::Tensor value{};
  at::Tensor exp_avg{};
  at::Tensor exp_avg_sq{};
};

class Trainer {
 public:
  explicit Trainer(const lockstep::models::Gpt2Options& options) : model_(lockstep::models::gpt2(options)) {
    for (const auto& layer : model_.layers) build(*layer);
    build(*model_.head);
  }

  double step(const at::Tensor& input, const at::Tensor& labels) {
    at::Tensor hidden = input;
    for (const auto& layer : model_.layers) hidden = layer->forward({&hidden, 1}).front();
    const at::Tensor loss = model_.head->loss(hidden, labels);
    hidden.reset();
    torch::autograd::backward({loss});
    update();
    return loss.item<double>();
  }

 private:
  void build(lockstep::Layer& layer) {
    std::vector<at::Tensor> values;
    for (const auto& spec : layer.describe()) {
      const std::string& name = spec.tied_to.empty() ? spec.name : spec.tied_to;
      Parameter& parameter = parameters_[name];
      if (!parameter.value.defined()) {
        using Kind = lockstep::Initialization::Kind;
        const auto kind = spec.initialization.kind;
        parameter.value = kind == Kind::normal  ? at::randn(spec.shape) * spec.initialization.deviation
                          : kind == Kind::zeros ? at::zeros(spec.shape)
                                                : at::ones(spec.shape);
        parameter.value.requires_grad_();
        parameter.exp_avg = at::zeros(spec.shape);
        parameter.exp_avg_sq = at::zeros(spec.shape);
      }
      values.push_back(parameter.value);
    }
    layer.build(values);
  }

  void update() {
    kernels::ExactSum squares;
    for (const auto& [name, parameter] : parameters_)
      kernels::add_squares(parameter.value.grad().const_data_ptr<float>(), parameter.value.numel(), squares);
    ++applied_;
    kernels::AdamStep adam{.weight_decay = 0.01};
    adam.bias_correction1 = 1 - std::pow(adam.beta1, applied_);
    adam.bias_correction2 = 1 - std::pow(adam.beta2, applied_);
    adam.gradient_divisor = static_cast<float>(std::max(1.0, std::sqrt(squares.rounded()) + 1e-6));
    for (auto& [name, parameter] : parameters_) {
      kernels::adam(adam,
                    {.value = parameter.value.mutable_data_ptr<float>(),
                     .gradient = parameter.value.grad().const_data_ptr<float>(),
                     .exp_avg = parameter.exp_avg.mutable_data_ptr<float>(),
                     .exp_avg_sq = parameter.exp_avg_sq.mutable_data_ptr<float>()},
                    parameter.value.numel());
      parameter.value.mutable_grad().reset();
    }
  }

  lockstep::LayerStack model_;
  std::map<std::string, Parameter> parameters_;
  int64_t applied_ = 0;
};

void train_step(benchmark::State& state) {
  lockstep::tensor::install_cpu_allocator();
  at::set_num_threads(1);
  const int64_t sequences = state.range(0);
  const int64_t length = state.range(1);
  const int64_t vocabulary = state.range(2);
  Trainer trainer({.layers = 6, .width = 384, .heads = 6, .positions = 256, .vocabulary = vocabulary});
  double loss = 0;
  const auto step = [&] {
    const at::Tensor tokens = at::randint(vocabulary, {sequences, length + 1}, at::kLong);
    loss = trainer.step(tokens.narrow(1, 0, length).contiguous(), tokens.narrow(1, 1, length).contiguous());
  };
  for (int i = 0; i < 2; ++i) step();
  const std::clock_t start = std::clock();
  for (auto _ : state) step();
  const double processor_seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  const auto tokens = static_cast<double>(state.iterations() * sequences * length);
  state.counters["tokens_per_s"] = benchmark::Counter(tokens, benchmark::Counter::kIsRate);
  state.counters["tokens_per_cpu_s"] = tokens / processor_seconds;
  state.counters["peak_mb"] = static_cast<double>(lockstep::tensor::peak_bytes()) / 1e6;
  state.counters["loss"] = loss;
}

BENCHMARK(train_step)
    ->Args({8, 256, 256})
    ->Args({1, 64, 256})
    ->Args({2, 256, 50257})
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

}  // namespace
