#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lockstep/export.h"

namespace LOCKSTEP_API lockstep {

/// A sequence of token ids.  Thread-safe: reading changes nothing.
class TokenSource {
 public:
  virtual ~TokenSource() = default;
  [[nodiscard]] virtual int64_t size() const = 0;
  /// Fills `into` with the tokens from `offset` on.  Requires: 0 <= offset, offset + into.size() <= size().
  virtual void read(int64_t offset, std::span<int64_t> into) const = 0;
  /// Every token id is smaller than this.
  [[nodiscard]] virtual int64_t vocabulary() const = 0;
  /// For messages: the file's name, or the first one's and how many follow.
  [[nodiscard]] virtual std::string name() const = 0;
};

/// Text files as bytes (vocabulary 256), one after the other, mapped into memory.  A file must not shrink while it is
/// in use.  Throws ConfigError (no file named), IoError (missing, empty, a directory).
std::shared_ptr<TokenSource> open_text_files(const std::vector<std::string>& files);

/// Tokens [first, first + count) of a source.
struct TokenRange {
  int64_t first = 0;
  int64_t count = 0;
  bool operator==(const TokenRange&) const = default;
};

struct TokenSplit {
  TokenRange training{};
  TokenRange evaluation{};
};

/// Holds back the last `eval_fraction` of the tokens, rounded to the nearest token.
/// Throws ConfigError for a fraction outside [0, 1).
TokenSplit split_tokens(int64_t token_count, double eval_fraction);

/// One rank's micro-batch.
struct Batch {
  at::Tensor input{};   ///< int64 [micro, T].
  at::Tensor target{};  ///< int64 [micro, T]: input, one token on.
};

/// One rank's part of a round of evaluation.
struct EvaluationBatch {
  Batch batch{};        ///< `samples` rows; one row where samples is 0, only so that ranks stay together.
  int64_t samples = 0;  ///< Rows that count towards the mean, from 0 to micro_batch.
};

struct LoaderOptions {
  int64_t sequence_length = 0;
  int64_t micro_batch = 1;  ///< Samples per micro-batch and rank.
  int rank = 0;             ///< Among the data ranks.
  int world = 1;
  uint64_t seed = 0;
  bool shuffle = true;
  int64_t first_token = 0;
  int64_t token_count = -1;       ///< -1: up to the source's end.
  int64_t model_vocabulary = -1;  ///< The data's must not be larger; -1: not checked.
};

/// Cuts a source into samples and deals them out.  Sample s is tokens [s*T, s*T + T] of the range, T+1 of them, the
/// last shared with the next sample.  It has no state: which samples a micro-batch holds is a function of its number,
/// so resuming is asking for the next number.  Thread-safe.
class Loader {
 public:
  /// Throws ConfigError: too few tokens for one sample, a vocabulary larger than the model's, an option out of range.
  Loader(std::shared_ptr<TokenSource> source, LoaderOptions options);

  /// This rank's batch of global micro-step g, counted from 0 over the whole run: slot j is position
  /// k = rank + world * (g * micro_batch + j), which is sample pi_e(k mod n) of epoch e = floor(k / n).
  [[nodiscard]] Batch at(int64_t global_micro_step) const;
  /// Samples of one epoch, n = floor((token_count - 1) / T).
  [[nodiscard]] int64_t samples() const { return samples_; }

  /// Rounds that visit every sample once, in order and unshuffled; the same on every rank.
  [[nodiscard]] int64_t evaluation_rounds() const;
  /// This rank's part of a round.  The mean over all samples is the sum over rounds and ranks of
  /// samples * (mean loss of the batch), divided by samples().
  [[nodiscard]] EvaluationBatch evaluation_batch(int64_t round) const;

  [[nodiscard]] const LoaderOptions& options() const { return options_; }

 private:
  [[nodiscard]] Batch collect(std::span<const int64_t> samples) const;

  const std::shared_ptr<TokenSource> source_;  // Shared: the training and the evaluation loader read one source.
  const LoaderOptions options_;
  const int64_t samples_;
};

}  // namespace lockstep
