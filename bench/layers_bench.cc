// The layers' own kernels against a plain copy of the same bytes.
// Counters: ns_per_element, and bytes_per_second over what each one must read and write.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "kernels/cross_entropy.h"
#include "kernels/gelu.h"
#include "kernels/norm.h"
#include "kernels/simd.h"

namespace {

using namespace lockstep::kernels;

std::vector<float> values(int64_t numel, float first) {
  std::vector<float> result(static_cast<size_t>(numel));
  for (size_t i = 0; i < result.size(); ++i) result[i] = first + 4e-3F * static_cast<float>(i * 37 % 1000);
  return result;
}

void count(benchmark::State& state, int64_t numel, int64_t bytes_per_element) {
  const int64_t elements = state.iterations() * numel;
  state.SetBytesProcessed(elements * bytes_per_element);
  state.counters["ns_per_element"] = benchmark::Counter(static_cast<double>(elements) * 1e-9,
                                                        benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
  state.SetLabel(simd_level());
}

// Ranges of all: rows, columns.
Matrix shape_of(const benchmark::State& state) { return {state.range(0), state.range(1)}; }

void gelu_with_derivative(benchmark::State& state) {
  const Matrix shape = shape_of(state);
  const int64_t numel = shape.rows * shape.columns;
  const auto x = values(numel, -2.0F);
  const auto bias = values(shape.columns, -2.0F);
  auto y = x;
  auto d = x;
  for (auto _ : state) {
    gelu_forward(shape, x.data(), bias.data(), y.data(), d.data());
    benchmark::ClobberMemory();
  }
  count(state, numel, 12);
}

void gelu_gradient(benchmark::State& state) {
  const Matrix shape = shape_of(state);
  const int64_t numel = shape.rows * shape.columns;
  const auto dy = values(numel, -2.0F);
  const auto d = values(numel, -2.0F);
  auto dx = dy;
  auto bias_gradient = values(shape.columns, 0.0F);
  for (auto _ : state) {
    gelu_backward(shape, dy.data(), d.data(), dx.data(), bias_gradient.data());
    benchmark::ClobberMemory();
  }
  count(state, numel, 12);
}

void layer_norm(benchmark::State& state) {
  const Matrix shape = shape_of(state);
  const int64_t numel = shape.rows * shape.columns;
  const auto x = values(numel, -2.0F);
  const auto weight = values(shape.columns, -2.0F);
  auto y = x;
  std::vector<float> mean(static_cast<size_t>(shape.rows));
  std::vector<float> rstd(static_cast<size_t>(shape.rows));
  for (auto _ : state) {
    layer_norm_forward(shape, {.x = x.data(),
                               .weight = weight.data(),
                               .bias = weight.data(),
                               .y = y.data(),
                               .mean = mean.data(),
                               .rstd = rstd.data()});
    benchmark::ClobberMemory();
  }
  count(state, numel, 8);
}

void layer_norm_gradient(benchmark::State& state) {
  const Matrix shape = shape_of(state);
  const int64_t numel = shape.rows * shape.columns;
  const auto x = values(numel, -2.0F);
  const auto dy = values(numel, -1.0F);
  const auto weight = values(shape.columns, -2.0F);
  auto dx = x;
  auto weight_gradient = weight;
  auto bias_gradient = weight;
  const std::vector<float> mean(static_cast<size_t>(shape.rows));
  const std::vector<float> rstd(static_cast<size_t>(shape.rows), 1.0F);
  for (auto _ : state) {
    layer_norm_backward(shape, {.dy = dy.data(),
                                .x = x.data(),
                                .weight = weight.data(),
                                .mean = mean.data(),
                                .rstd = rstd.data(),
                                .dx = dx.data(),
                                .weight_gradient = weight_gradient.data(),
                                .bias_gradient = bias_gradient.data()});
    benchmark::ClobberMemory();
  }
  count(state, numel, 12);
}

// The gradient overwrites the logits, so each round starts from a copy, which is counted.
void loss_and_gradient(benchmark::State& state) {
  const int64_t numel = state.range(0) * state.range(1);
  const auto logits = values(numel, -2.0F);
  auto work = logits;
  const std::vector<int64_t> labels(static_cast<size_t>(state.range(0)), 7);
  std::vector<double> loss(labels.size());
  for (auto _ : state) {
    std::memcpy(work.data(), logits.data(), logits.size() * sizeof(float));
    cross_entropy({state.range(0), state.range(1), state.range(1)}, work.data(), labels.data(), 1.0F, loss.data());
    benchmark::ClobberMemory();
  }
  count(state, numel, 16);
}

BENCHMARK(gelu_with_derivative)->Args({8, 1536})->Args({2048, 1536});
BENCHMARK(gelu_gradient)->Args({8, 1536})->Args({2048, 1536});
BENCHMARK(layer_norm)->Args({32, 384})->Args({2048, 384});
BENCHMARK(layer_norm_gradient)->Args({32, 384})->Args({2048, 384});
BENCHMARK(loss_and_gradient)->Args({512, 256})->Args({64, 50257});

}  // namespace

BENCHMARK_MAIN();
