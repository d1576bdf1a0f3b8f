#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/export.h"

namespace LOCKSTEP_API lockstep {

struct ActivationCheckpointingConfig {
  std::optional<bool> enabled{};  ///< Absent: as the model asks.
  std::optional<double> checkpoint_ratio{};
  bool partition_activations = false;
  bool cpu_checkpointing = false;
  bool contiguous_memory_optimization = false;
  std::optional<int64_t> number_checkpoints{};
  bool synchronize_checkpoint_boundary = false;
  bool profile = false;
  bool operator==(const ActivationCheckpointingConfig&) const = default;
};

struct PipelineConfig {
  enum class Schedule { one_forward_one_backward, gpipe };
  std::optional<bool> enabled{};  ///< Absent: as the model asks.
  std::optional<int64_t> micro_batch_size{};
  std::optional<int64_t> stages{};  ///< Absent: "auto".
  Schedule schedule = Schedule::one_forward_one_backward;
  std::string partition = "best";
  bool seed_layers = false;
  int64_t activation_checkpoint_interval = 0;
  bool pipe_partitioned = true;
  bool grad_partitioned = true;
  bool use_reentrant = true;
  bool operator==(const PipelineConfig&) const = default;
};

struct CheckpointWriterConfig {
  enum class Type { fast, python, mock };
  enum class DataParallel { replica, socket, machine };
  std::optional<Type> type{};
  bool decoupled = false;
  int64_t io_buffer_size = 67108864;
  bool io_buffer_double = true;
  bool show_statistics = false;
  std::optional<DataParallel> data_parallel{};
  int64_t io_multiplier = 1;
  bool operator==(const CheckpointWriterConfig&) const = default;
};

struct CheckpointConfig {
  enum class TagValidation { ignore, warn, fail };
  bool enabled = false;
  std::optional<int64_t> save_interval{};
  std::optional<std::string> path{};
  std::optional<std::string> prefix{};
  bool save_optimizer = true;
  bool save_lr_scheduler = true;
  TagValidation tag_validation = TagValidation::warn;
  bool load_universal = false;
  bool use_node_local_storage = false;
  bool parallel_write_pipeline_stage = false;  ///< JSON: "parallel_write": {"pipeline_stage": ...}.
  bool checkpoint_serialization = true;
  CheckpointWriterConfig writer{};
  bool operator==(const CheckpointConfig&) const = default;
};

/// "tensorboard" and "csv_monitor".
struct FileMonitorConfig {
  bool enabled = false;
  std::string output_path{};
  std::string job_name = "DeepSpeedJobName";
  bool operator==(const FileMonitorConfig&) const = default;
};

struct WandbConfig {
  bool enabled = false;
  std::optional<std::string> group{};
  std::optional<std::string> team{};
  std::string project = "deepspeed";
  bool operator==(const WandbConfig&) const = default;
};

struct CometConfig {
  bool enabled = false;
  int64_t samples_log_interval = 100;
  std::optional<std::string> project{};
  std::optional<std::string> workspace{};
  std::optional<std::string> api_key{};
  std::optional<std::string> experiment_name{};
  std::optional<std::string> experiment_key{};
  std::optional<bool> online{};
  std::optional<std::string> mode{};
  bool operator==(const CometConfig&) const = default;
};

struct CommsLoggerConfig {
  bool enabled = false;
  bool verbose = false;
  bool prof_all = true;
  bool debug = false;
  std::vector<std::string> prof_ops{};
  bool operator==(const CommsLoggerConfig&) const = default;
};

struct FlopsProfilerConfig {
  bool enabled = false;
  double recompute_fwd_factor = 0;
  int64_t profile_step = 1;
  int64_t module_depth = -1;
  int64_t top_modules = 1;
  bool detailed = true;
  std::optional<std::string> output_file{};
  bool operator==(const FlopsProfilerConfig&) const = default;
};

struct ThroughputTimerConfig {
  bool enabled = true;
  bool synchronized = true;
  bool operator==(const ThroughputTimerConfig&) const = default;
};

struct TimersConfig {
  ThroughputTimerConfig throughput{};
  bool operator==(const TimersConfig&) const = default;
};

struct ElasticityConfig {
  bool enabled = false;
  int64_t max_train_batch_size = 2000;
  std::vector<int64_t> micro_batch_sizes{2, 4, 6};
  int64_t min_gpus = 1;
  int64_t max_gpus = 10000;
  int64_t min_time = 0;
  bool prefer_larger_batch = true;
  bool ignore_non_elastic_batch_info = false;
  int64_t num_gpus_per_node = 1;
  int64_t model_parallel_size = 1;
  double version = 0.2;
  bool operator==(const ElasticityConfig&) const = default;
};

/// Keys that DeepSpeed does not have; JSON object "lockstep", which it ignores.
struct LockstepConfig {
  enum class ReduceAt { automatic, boundary, micro_batch };
  enum class HalfProducts { automatic, native, widened };
  bool deterministic = false;
  ReduceAt reduce_at = ReduceAt::automatic;
  HalfProducts half_products = HalfProducts::automatic;
  int64_t max_skipped_steps = 20;
  double timeout = 600;  ///< Seconds.
  std::vector<std::string> no_decay{};
  int64_t keep_checkpoints = 0;  ///< 0: all.
  bool operator==(const LockstepConfig&) const = default;
};

}  // namespace lockstep
