#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/config_running.h"
#include "lockstep/config_training.h"
#include "lockstep/config_zero.h"
#include "lockstep/export.h"

namespace LOCKSTEP_API lockstep {

/// What a config file does not say itself.
struct ParseOptions {
  std::optional<int64_t> world_size{};   ///< All processes.  Absent: total / (micro x accumulation) if given, else 1.
  bool lenient = false;                  ///< An unknown key is a warning, not an error.
  std::optional<int64_t> hidden_size{};  ///< The model's width, for "auto" bucket sizes.
  std::optional<int64_t> total_steps{};  ///< The run's steps, for "total_num_steps": "auto".
};

/// Where a key's value came from.
struct Origin {
  enum class Source { defaulted, file, automatic, derived };
  Source source = Source::defaulted;
  int line = 0;  ///< Of the value in the file, from 1; 0 where there is none.
  int column = 0;
  std::string detail{};  ///< How an automatic or derived value was found.
  /// "file, line 3, column 12", "default", "auto: the optimizer's lr", "derived: ...".
  [[nodiscard]] std::string text() const;
};

/// What reading a config left beside its values.  No part of the value: two readings always compare equal.
struct Reading {
  std::string file{};
  std::vector<std::string> warnings{};  ///< Unknown keys under `lenient`, old names, likely mistakes.
  std::vector<std::string> notices{};   ///< One line for each given key that changes nothing, and for each "auto".
  std::map<std::string, Origin, std::less<>> origins{};  ///< By dotted path; absent: default.
  bool operator==(const Reading&) const { return true; }
};

/// A whole ds_config.json, read, completed and checked.  A plain value: comparable, printable, free of handles.
/// Fields are named as the JSON; batch sizes are resolved, so train_batch_size = micro x accumulation x replicas.
struct Config {
  int64_t train_batch_size = 1;
  int64_t train_micro_batch_size_per_gpu = 1;
  int64_t gradient_accumulation_steps = 1;

  std::optional<int64_t> steps_per_print{};
  bool wall_clock_breakdown = false;
  bool memory_breakdown = false;
  bool dump_state = false;
  std::optional<std::string> log_level{};

  double gradient_clipping = 1.0;
  double gradient_predivide_factor = 1.0;
  bool prescale_gradients = false;
  enum class ReduceOp { mean, sum };
  ReduceOp gradient_allreduce_op = ReduceOp::mean;
  std::optional<DataType> communication_data_type{};
  DataType seq_parallel_communication_data_type = DataType::fp32;
  bool sparse_gradients = false;
  bool zero_allow_untested_optimizer = false;
  std::optional<bool> zero_force_ds_cpu_optimizer{};  ///< Absent: DeepSpeed's guard only.
  bool managed_gradient_accumulation = true;
  bool dataloader_drop_last = false;
  bool disable_allgather = false;
  std::optional<int64_t> vocabulary_size{};
  bool graph_harvesting = false;
  bool use_data_before_expert_parallelism = false;
  std::optional<int64_t> sequence_parallel_size{};
  std::optional<int64_t> data_parallel_size{};

  OptimizerConfig optimizer{};
  SchedulerConfig scheduler{};
  Fp16Config fp16{};
  Bf16Config bf16{};
  TorchAutocastConfig torch_autocast{};
  AmpConfig amp{};
  DataTypesConfig data_types{};
  ZeroConfig zero_optimization{};
  AioConfig aio{};
  ActivationCheckpointingConfig activation_checkpointing{};
  PipelineConfig pipeline{};
  CheckpointConfig checkpoint{};
  FileMonitorConfig tensorboard{};
  FileMonitorConfig csv_monitor{};
  WandbConfig wandb{};
  CometConfig comet{};
  CommsLoggerConfig comms_logger{};
  FlopsProfilerConfig flops_profiler{};
  TimersConfig timers{};
  ElasticityConfig elasticity{};
  LockstepConfig lockstep{};
  /// Blocks that are known, switched off and not read further, as JSON text ("curriculum_learning", "nebula", ...).
  std::map<std::string, std::string, std::less<>> blocks{};

  // Facts, not keys.
  int64_t world_size = 1;  ///< Processes the config was read for.
  int64_t replicas = 1;    ///< Data-parallel size W: world_size / (pipeline stages x sequence_parallel_size).

  Reading reading{};

  /// Throws IoError if the file cannot be read, ConfigError with every problem of its text.
  static Config from_file(const std::string& path, const ParseOptions& options = {});
  /// `name` stands for the file in messages.  Throws ConfigError with every problem.
  static Config from_text(std::string_view text, const std::string& name, const ParseOptions& options = {});

  [[nodiscard]] const std::vector<std::string>& warnings() const { return reading.warnings; }
  [[nodiscard]] const std::vector<std::string>& notices() const { return reading.notices; }
  /// Requires: path is a declared key, "zero_optimization.stage".
  [[nodiscard]] Origin provenance(std::string_view path) const;
  /// The effective config: every key in declared order.  Reads back to an equal Config at the same world size.
  [[nodiscard]] std::string to_json_text() const;
  /// The same as lines "path = value    # origin" for people; only what differs from the defaults unless `all`.
  [[nodiscard]] std::string to_listing(bool all = true) const;

  bool operator==(const Config&) const = default;
};

/// What the key `name` (a dotted path, or its last word) does, its type, default, range and cost.  Throws ConfigError
/// naming the nearest key.
std::string explain_config_key(std::string_view name);

/// The JSON Schema that editors use.
std::string config_schema();

/// docs/config.md.
std::string config_reference();

}  // namespace lockstep
