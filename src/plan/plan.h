#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/config_training.h"
#include "plan/instructions.h"
#include "plan/layout.h"
#include "plan/parameter_table.h"

namespace lockstep::plan {

/// Of one element.
[[nodiscard]] constexpr int64_t bytes_of(DataType type) { return type == DataType::fp32 ? 4 : 2; }

/// What each rank keeps only its own slice of.  ZeRO's stages 1, 2 and 3 (Rajbhandari et al., 2020, section 5) switch
/// on one more each.
struct Sharding {
  bool optimizer = false;
  bool gradients = false;
  bool parameters = false;

  bool operator==(const Sharding&) const = default;
};

/// Where parameters are sharded, small units are whole together: no more elements than the largest unit, or than this.
inline constexpr int64_t kSmallUnitsNumel = 1'000'000;

/// What a plan is made from.
struct PlanOptions {
  int world_size = 1;
  int64_t accumulation = 1;
  Sharding shard{};
  bool reduce_each_micro_batch = false;   ///< Else once a step, after the ranks' own sums.
  int64_t bucket_numel = 0;               ///< Elements over all owners; at least one block per owner is taken.
  int64_t gather_numel = 0;               ///< Elements of weights gathered in one transfer; larger units go alone.
  int64_t max_live_numel = 0;             ///< Elements of whole units at a time, where parameters are sharded.
  bool sparse_gradients = false;          ///< Of look-ups: units that a single layer reads, in its forward only.
  DataType weight_type = DataType::fp32;  ///< Of weights, and of the gradients that backward leaves.
  bool master_weights = true;             ///< fp32 ones beside 16-bit weights.
  DataType wire_type = DataType::fp32;    ///< Of gradients between ranks.
  int64_t optimizer_states = 2;           ///< fp32 values per parameter that the optimizer keeps.

  bool operator==(const PlanOptions&) const = default;
};

/// Bytes of one rank, by what they hold.
struct MemoryPrediction {
  int64_t parameters = 0;
  int64_t master_weights = 0;     ///< fp32, beside 16-bit parameters.
  int64_t whole_units = 0;        ///< Gathered at a time, where parameters are sharded.
  int64_t gradients = 0;          ///< As backward leaves them, or the slices of their means.
  int64_t reduction_buffers = 0;  ///< Buckets; they also accumulate where accumulation needs it.
  int64_t optimizer = 0;

  bool operator==(const MemoryPrediction&) const = default;
  [[nodiscard]] int64_t total() const {
    return parameters + master_weights + whole_units + gradients + reduction_buffers + optimizer;
  }
};

/// Who owns which slice, what is sent when, what a rank holds: all of a run that is known before it starts.
/// A plain value: printable, comparable, the same on every rank.
struct Plan {
  PlanOptions options{};
  ParameterTable table{};
  std::vector<UnitLayout> layouts{};
  std::vector<Bucket> buckets{};
  std::vector<Segment> segments{};
  /// Where parameters are sharded, before they are read; else after an update by slices; else empty.
  std::vector<GatherGroup> gathers{};
  std::vector<Instruction> instructions{};
  MemoryPrediction memory{};  ///< Per rank.
  int64_t sent_bytes_per_step =
      0;  ///< Per rank: gradients, and weights where they are gathered; sparse ones as if dense.

  bool operator==(const Plan&) const = default;
  /// True where gradients need no buckets: one rank, one micro-batch; the update reads them where backward left them.
  [[nodiscard]] bool gradients_stay_in_place() const { return options.world_size == 1 && options.accumulation == 1; }
  /// True where every micro-batch's gradients are reduced and the owner sums them.
  [[nodiscard]] bool reduces_each_micro_batch() const {
    return options.reduce_each_micro_batch && options.accumulation > 1 && options.world_size > 1;
  }
  /// True where buckets are filled, reduced and given back; else they stay, one for all gradients of a rank.
  [[nodiscard]] bool buckets_are_transient() const {
    return options.shard.gradients && options.world_size > 1 &&
           (options.accumulation == 1 || reduces_each_micro_batch());
  }
  /// True where a rank keeps its slice of each unit between uses, and whole units are gathered.
  [[nodiscard]] bool parameters_are_sharded() const { return options.shard.parameters && options.world_size > 1; }
  /// True where a rank updates every element, with states for all; else its own segments only.
  [[nodiscard]] bool updates_everything() const { return !options.shard.optimizer || options.world_size == 1; }
  /// True where the update writes fp32 weights and rounds them to the 16-bit ones.
  [[nodiscard]] bool keeps_masters() const { return options.weight_type != DataType::fp32 && options.master_weights; }
  /// Of buckets: what travels, or fp32 where they stay and sum micro-batches.
  [[nodiscard]] DataType bucket_type() const {
    return options.accumulation > 1 && !buckets_are_transient() ? DataType::fp32 : options.wire_type;
  }
  /// Of the means' own slices where they outlive their buckets: what travels, or fp32 where they are summed.
  [[nodiscard]] DataType slice_type() const { return reduces_each_micro_batch() ? DataType::fp32 : options.wire_type; }
  /// Equal plans have equal hashes on every host; ranks compare them before the first transfer.
  [[nodiscard]] uint64_t hash() const;
};

Plan make_plan(ParameterTable table, const PlanOptions& options);

/// A table for people.
std::string to_text(const Plan& plan);
/// One JSON object.
std::string to_json_text(const Plan& plan);

}  // namespace lockstep::plan
