// The update path of one rank, from contributions to new weights, each against a plain copy of the same bytes:
//   adam_bench --benchmark_filter=adam
// Counters: ns_per_parameter, and bytes_per_second over what each one must read and write.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "kernels/adam.h"
#include "kernels/simd.h"
#include "kernels/sums.h"

namespace {

using namespace lockstep::kernels;

constexpr int64_t kInCache = 1 << 14;
constexpr int64_t kInMemory = 1 << 24;

std::vector<float> values(int64_t numel, float first) {
  std::vector<float> result(static_cast<size_t>(numel));
  for (size_t i = 0; i < result.size(); ++i) result[i] = first + 1e-3F * static_cast<float>(i % 1000);
  return result;
}

void count(benchmark::State& state, int64_t bytes_per_parameter) {
  const int64_t parameters = state.iterations() * state.range(0);
  state.SetBytesProcessed(parameters * bytes_per_parameter);
  state.counters["ns_per_parameter"] = benchmark::Counter(static_cast<double>(parameters) * 1e-9,
                                                          benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
  state.SetLabel(simd_level());
}

void plain_copy(benchmark::State& state) {
  const auto from = values(state.range(0), 0.1F);
  auto to = from;
  for (auto _ : state) {
    std::memcpy(to.data(), from.data(), from.size() * sizeof(float));
    benchmark::ClobberMemory();
  }
  count(state, 8);
}

void vector_copy(benchmark::State& state) {
  const auto from = values(state.range(0), 0.1F);
  auto to = from;
  for (auto _ : state) {
    copy(to.data(), from.data(), state.range(0));
    benchmark::ClobberMemory();
  }
  count(state, 8);
}

void adam_update(benchmark::State& state) {
  auto value = values(state.range(0), 0.1F);
  const auto gradient = values(state.range(0), 0.01F);
  auto exp_avg = values(state.range(0), 0.01F);
  auto exp_avg_sq = values(state.range(0), 0.01F);
  const AdamStep step{.weight_decay = 0.01, .bias_correction1 = 0.9, .bias_correction2 = 0.9, .gradient_divisor = 1.5F};
  for (auto _ : state) {
    adam(step,
         {.value = value.data(),
          .gradient = gradient.data(),
          .exp_avg = exp_avg.data(),
          .exp_avg_sq = exp_avg_sq.data()},
         state.range(0));
    benchmark::ClobberMemory();
  }
  count(state, 28);
}

void norm_of_gradient(benchmark::State& state) {
  const auto gradient = values(state.range(0), 0.01F);
  for (auto _ : state) {
    ExactSum sum;
    benchmark::DoNotOptimize(add_squares(gradient.data(), state.range(0), sum));
    benchmark::DoNotOptimize(sum.rounded());
  }
  count(state, 4);
}

// range(1): ranks.
void mean_of_ranks(benchmark::State& state) {
  std::vector<std::vector<float>> ranks;
  std::vector<const float*> pointers;
  for (int64_t rank = 0; rank < state.range(1); ++rank) ranks.push_back(values(state.range(0), 0.01F));
  for (const auto& rank : ranks) pointers.push_back(rank.data());
  std::vector<float> mean(static_cast<size_t>(state.range(0)));
  std::vector<uint8_t> non_finite(pointers.size());
  for (auto _ : state) {
    benchmark::DoNotOptimize(sum_mean(pointers, state.range(0), mean.data(), non_finite));
    benchmark::ClobberMemory();
  }
  count(state, 4 * (state.range(1) + 1));
}

void accumulate_gradient(benchmark::State& state) {
  const auto from = values(state.range(0), 0.01F);
  auto to = from;
  for (auto _ : state) {
    accumulate(to.data(), from.data(), state.range(0));
    benchmark::ClobberMemory();
  }
  count(state, 12);
}

BENCHMARK(plain_copy)->Arg(kInCache)->Arg(kInMemory);
BENCHMARK(vector_copy)->Arg(kInCache)->Arg(kInMemory);
BENCHMARK(adam_update)->Arg(kInCache)->Arg(kInMemory);
BENCHMARK(norm_of_gradient)->Arg(kInCache)->Arg(kInMemory);
BENCHMARK(mean_of_ranks)->ArgsProduct({{kInCache, kInMemory}, {2, 8}});
BENCHMARK(accumulate_gradient)->Arg(kInCache)->Arg(kInMemory);

}  // namespace

BENCHMARK_MAIN();
