#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "base/units.h"
#include "data/order.h"
#include "lockstep/data.h"
#include "lockstep/error.h"

namespace lockstep {
namespace {

LoaderOptions complete(LoaderOptions options, const TokenSource& source) {
  if (options.token_count < 0) options.token_count = source.size() - options.first_token;
  return options;
}

/// Samples of one epoch, or a ConfigError with all that is wrong.
int64_t count_samples(const LoaderOptions& options, const TokenSource& source) {
  std::vector<std::string> problems;
  if (options.micro_batch < 1)
    problems.push_back(fmt::format("micro-batch size {}: at least 1 is needed", options.micro_batch));
  if (options.world < 1 || options.rank < 0 || options.rank >= options.world)
    problems.push_back(fmt::format("data rank {} of {}: it must be from 0 to one less than the number of ranks",
                                   options.rank, options.world));
  if (options.first_token < 0 || options.token_count < 0 || options.token_count > source.size() - options.first_token)
    problems.push_back(fmt::format("{}: tokens from {} on, {} of them, are asked for, but it has {}", source.name(),
                                   options.first_token, options.token_count, base::format_count(source.size())));
  if (options.model_vocabulary >= 0 && source.vocabulary() > options.model_vocabulary)
    problems.push_back(
        fmt::format("{}: its tokens need a vocabulary of {}, the model has {}; use a model with a vocabulary of at "
                    "least {} or other data",
                    source.name(), source.vocabulary(), options.model_vocabulary, source.vocabulary()));
  if (options.sequence_length < 1) {
    problems.push_back(fmt::format("--seq-len {}: at least 1 is needed", options.sequence_length));
  } else if (options.token_count <= options.sequence_length) {
    const bool whole = options.token_count == source.size();
    problems.push_back(
        fmt::format("{}: {} {} found, but one sample of --seq-len {} needs {}; {}", source.name(),
                    base::format_count(options.token_count), whole ? "tokens" : "tokens in the part used",
                    options.sequence_length, base::format_count(options.sequence_length + 1),
                    whole ? "lower --seq-len or give more --data"
                          : "lower --seq-len, give more --data or change --eval-fraction, which splits them"));
  }
  if (!problems.empty()) throw ConfigError(std::move(problems));
  return (options.token_count - 1) / options.sequence_length;
}

}  // namespace

TokenSplit split_tokens(int64_t token_count, double eval_fraction) {
  if (!(eval_fraction >= 0 && eval_fraction < 1))
    throw ConfigError(
        fmt::format("--eval-fraction {}: a number from 0 to below 1 is needed, such as 0.1 for the last "
                    "tenth of the tokens",
                    eval_fraction));
  const int64_t held_back = std::llround(static_cast<double>(token_count) * eval_fraction);
  return {.training = {.first = 0, .count = token_count - held_back},
          .evaluation = {.first = token_count - held_back, .count = held_back}};
}

Loader::Loader(std::shared_ptr<TokenSource> source, LoaderOptions options)
    : source_(std::move(source)), options_(complete(options, *source_)), samples_(count_samples(options_, *source_)) {}

Batch Loader::at(int64_t global_micro_step) const {
  LOCKSTEP_CHECK(global_micro_step >= 0);
  const data::SampleOrder order{.samples = samples_,
                                .micro_batch = options_.micro_batch,
                                .world = options_.world,
                                .seed = options_.seed,
                                .shuffle = options_.shuffle};
  std::vector<int64_t> chosen(static_cast<size_t>(options_.micro_batch));
  for (int64_t slot = 0; slot < options_.micro_batch; ++slot)
    chosen[static_cast<size_t>(slot)] = order.sample(order.position(global_micro_step, options_.rank, slot));
  return collect(chosen);
}

int64_t Loader::evaluation_rounds() const {
  const int64_t per_round = options_.world * options_.micro_batch;
  return (samples_ + per_round - 1) / per_round;
}

EvaluationBatch Loader::evaluation_batch(int64_t round) const {
  LOCKSTEP_CHECK(round >= 0 && round < evaluation_rounds());
  std::vector<int64_t> chosen;
  for (int64_t slot = 0; slot < options_.micro_batch; ++slot) {
    const int64_t sample = options_.rank + options_.world * (round * options_.micro_batch + slot);
    if (sample < samples_) chosen.push_back(sample);
  }
  const auto count = static_cast<int64_t>(chosen.size());
  if (count == 0) chosen.push_back(0);
  return {.batch = collect(chosen), .samples = count};
}

Batch Loader::collect(std::span<const int64_t> samples) const {
  const int64_t length = options_.sequence_length;
  const auto rows = static_cast<int64_t>(samples.size());
  Batch batch{.input = at::empty({rows, length}, at::kLong), .target = at::empty({rows, length}, at::kLong)};
  auto* input = batch.input.mutable_data_ptr<int64_t>();
  auto* target = batch.target.mutable_data_ptr<int64_t>();
  std::vector<int64_t> tokens(static_cast<size_t>(length) + 1);
  for (const int64_t sample : samples) {
    source_->read(options_.first_token + sample * length, tokens);
    input = std::copy(tokens.begin(), tokens.end() - 1, input);
    target = std::copy(tokens.begin() + 1, tokens.end(), target);
  }
  return batch;
}

}  // namespace lockstep
