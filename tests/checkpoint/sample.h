#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/writer.h"

namespace lockstep::checkpoint {

/// A model's parameters: sizes that divide by nothing, one element, none.
inline const std::vector<std::pair<std::string, std::vector<int64_t>>>& sample_parameters() {
  static const std::vector<std::pair<std::string, std::vector<int64_t>>> kParameters{
      {"wte.weight", {57, 5}}, {"h.0/odd@name+1", {3}}, {"scalar", {}}, {"empty", {0, 4}}, {"ln.bias", {300}}};
  return kParameters;
}

inline int64_t numel_of(const std::vector<int64_t>& shape) {
  int64_t numel = 1;
  for (const int64_t size : shape) numel *= size;
  return numel;
}

/// The value of an element: different for every parameter, state, element and step.
inline float sample_value(const std::string& parameter, const std::string& state, int64_t element, int64_t step) {
  const auto first = static_cast<float>(parameter.size() * 31 + state.size() * 7);
  return first + static_cast<float>(element) * 1.0009F + static_cast<float>(step) * 0.37F;
}

inline at::Tensor sample_values(const std::string& parameter, const std::string& state, int64_t offset, int64_t numel,
                                int64_t step) {
  at::Tensor values = at::empty({numel}, at::kFloat);
  for (int64_t element = 0; element < numel; ++element)
    values.mutable_data_ptr<float>()[element] = sample_value(parameter, state, offset + element, step);
  return values;
}

/// Rank's share of every parameter, cut at places that depend on the world.
inline std::vector<Piece> sample_pieces(const std::string& state, int rank, int world, int64_t step) {
  std::vector<Piece> pieces;
  for (const auto& [name, shape] : sample_parameters()) {
    const int64_t numel = numel_of(shape);
    const int64_t share = numel / world + 1;
    const int64_t begin = std::min(numel, share * rank);
    const int64_t end = std::min(numel, begin + share);
    // In two pieces where that is possible.
    const int64_t middle = begin + (end - begin) / 3;
    for (const auto& [from, to] : {std::pair(begin, middle), std::pair(middle, end)})
      if (to > from || numel == 0)
        pieces.push_back({.parameter = name,
                          .shape = shape,
                          .offset = from,
                          .values = sample_values(name, state, from, to - from, step)});
    if (numel == 0) pieces.pop_back();
  }
  return pieces;
}

inline TrainingState sample_state(int64_t step, int world) {
  return {.steps = step,
          .applied_steps = step - 2,
          .skipped_steps = 2,
          .consecutive_skips = 1,
          .samples = step * 32,
          .tokens = step * 32 * 256,
          .seed = 0xfedcba9876543210U,
          .schedule_position = step - 3,
          .loss_scaler = {.scale = 1.0 / 3.0, .steps = step, .last_overflow = 4, .tolerance = 1},
          .group_steps = {step - 2, step - 3},
          .data = {.micro_step = step * 2,
                   .name = "corpus \"one\".txt",
                   .token_count = 123456789012,
                   .sequence_length = 256,
                   .shuffle = false},
          .run = {.world_size = world,
                  .accumulation = 2,
                  .reduce_at = "boundary",
                  .threads_per_rank = 1,
                  .simd_level = "AVX2",
                  .torch_version = "2.11.0"},
          .model = "{\n  \"model_type\": \"gpt2\"\n}\n",
          .config = "{\n  \"optimizer\": {\n    \"lr\": 0.1\n  },\n  \"a\": 3\n}\n",
          .plan_hash = 0x00ffee,
          .plan = "a plan\nof two lines\n"};
}

inline SaveRequest sample_request(const std::string& directory, const std::string& tag, int64_t step, int rank,
                                  int world) {
  return {.directory = directory,
          .tag = tag,
          .state = sample_state(step, world),
          .weights = sample_pieces("", rank, world, step),
          .optimizer_states = {{"exp_avg", sample_pieces("exp_avg", rank, world, step)},
                               {"exp_avg_sq", sample_pieces("exp_avg_sq", rank, world, step)}},
          .extra_files = {{"config.json", "{\"model_type\": \"gpt2\"}\n"}}};
}

}  // namespace lockstep::checkpoint
