#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "precision/loss_scaler.h"

namespace lockstep::checkpoint {

/// Written into every state.json; a reader refuses a higher one.
inline constexpr int64_t kFormatVersion = 1;

/// Which samples the run has seen.
struct DataState {
  int64_t micro_step = 0;  ///< Micro-batches of a rank so far: the loader's next position.
  std::string name{};
  int64_t token_count = 0;
  int64_t sequence_length = 0;
  bool shuffle = true;
  bool operator==(const DataState&) const = default;
};

/// What decides the bits of the arithmetic besides the config; a resume names what differs.
struct RunFacts {
  int64_t world_size = 1;
  int64_t accumulation = 1;
  std::string reduce_at{};
  std::string half_products{};  ///< "native" or "widened"; empty without 16-bit products.
  int64_t threads_per_rank = 1;
  std::string simd_level{};
  std::string torch_version{};
  bool operator==(const RunFacts&) const = default;
};

/// All of a run that is not a tensor: what state.json holds.  A plain value.
struct TrainingState {
  int64_t steps = 0;  ///< Attempted.
  int64_t applied_steps = 0;
  int64_t skipped_steps = 0;
  int64_t consecutive_skips = 0;
  int64_t samples = 0;
  int64_t tokens = 0;
  uint64_t seed = 0;
  int64_t schedule_position = -1;
  precision::LossScalerState loss_scaler{};
  std::vector<int64_t> group_steps{};  ///< Applied steps of each parameter group.
  DataState data{};
  RunFacts run{};
  std::string model{};   ///< The model's config.json as text; may be empty.
  std::string config{};  ///< The effective config, a JSON object as text.
  uint64_t plan_hash = 0;
  std::string plan{};  ///< For people.
  bool operator==(const TrainingState&) const = default;
};

/// A file of a checkpoint beside state.json.
struct FileRecord {
  std::string name{};
  int64_t bytes = 0;
  uint64_t xxh3 = 0;  ///< XXH3, 64 bits, of the whole file.
  bool operator==(const FileRecord&) const = default;
};

/// state.json.
struct Manifest {
  TrainingState state{};
  std::vector<FileRecord> files{};
  bool operator==(const Manifest&) const = default;
};

/// A JSON object that ends in a newline.  Texts that are JSON objects (config, model) come back as the same values in
/// the same order, with their own indentation lost.
std::string to_json_text(const Manifest& manifest);

/// Throws CheckpointError naming `path` and the key.
Manifest parse_manifest(const std::string& text, const std::string& path);

/// What differs between two runs' facts, one text each, such as "threads per rank (2 there, 1 here)"; `there` is the
/// checkpoint's.  Empty where a resumed run gives the same bits.
std::vector<std::string> differences(const RunFacts& there, const RunFacts& here);

}  // namespace lockstep::checkpoint
