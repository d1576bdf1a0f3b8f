#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

/// The blocks of a config, with the JSON's names and the defaults of absent keys.  What each key means is declared
/// beside its range in the list that docs/config.md is made from; comments here say only what C++ adds.

enum class DataType { fp32, fp16, bf16, int8 };

/// One value for every parameter group, or a list with one per group; empty where the key is optional and absent.
using PerGroup = std::vector<double>;

struct Fp16Config {
  bool enabled = false;
  bool auto_cast = false;
  double loss_scale = 0;  ///< 0: dynamic.
  int64_t initial_scale_power = 16;
  int64_t loss_scale_window = 1000;
  int64_t hysteresis = 2;
  bool consecutive_hysteresis = false;
  double min_loss_scale = 1;
  bool fp16_master_weights_and_grads = false;
  bool operator==(const Fp16Config&) const = default;
};

struct Bf16Config {
  bool enabled = false;
  bool immediate_grad_update = false;
  bool check_grad_overflow = true;
  bool bf16_master_weights_and_grads = false;
  bool bf16_optimizer_states = false;
  bool operator==(const Bf16Config&) const = default;
};

struct TorchAutocastConfig {
  bool enabled = false;
  std::optional<DataType> dtype{};
  std::vector<std::string> lower_precision_safe_modules{};
  bool operator==(const TorchAutocastConfig&) const = default;
};

struct AmpConfig {
  enum class Backend { automatic, torch, apex };
  bool enabled = false;
  std::optional<std::string> opt_level{};
  std::optional<Backend> fp16_backend{};
  std::optional<std::string> cast_model_type{};
  std::optional<bool> patch_torch_functions{};
  std::optional<bool> keep_batchnorm_fp32{};
  std::optional<bool> master_weights{};
  std::optional<double> loss_scale{};  ///< Absent or "dynamic": dynamic.
  std::optional<std::string> cast_model_outputs{};
  int64_t num_losses = 1;
  int64_t verbosity = 1;
  std::optional<double> min_loss_scale{};
  double max_loss_scale = 16777216;
  bool operator==(const AmpConfig&) const = default;
};

struct DataTypesConfig {
  std::optional<DataType> grad_accum_dtype{};
  std::optional<DataType> param_dtype{};
  std::optional<DataType> buffer_dtype{};
  bool operator==(const DataTypesConfig&) const = default;
};

/// The union of all optimizers' parameters.  A type's own defaults (Adagrad's lr, Muon's betas) are filled in when it
/// is read; a parameter that the type does not take is refused.
struct OptimizerParams {
  double lr = 1e-3;
  std::array<double, 2> betas{0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 0;
  bool bias_correction = true;
  bool adam_w_mode = true;
  bool torch_adam = false;
  bool amsgrad = false;
  bool maximize = false;
  double momentum = 0;   ///< SGD, RMSprop, Muon.
  double dampening = 0;  ///< SGD.
  bool nesterov = false;
  double alpha = 0.99;  ///< RMSprop.
  bool centered = false;
  double lr_decay = 0;  ///< Adagrad.
  double initial_accumulator_value = 0;
  double max_coeff = 10;  ///< LAMB family.
  double min_coeff = 0.01;
  bool eps_inside_sqrt = false;
  std::optional<double> muon_lr{};
  std::optional<double> adam_lr{};
  std::string ns_method = "gram";
  int64_t freeze_step = 100000;  ///< 1-bit family.
  bool cuda_aware = false;
  std::string comm_backend_name = "nccl";
  double coeff_beta = 0.9;
  double factor_max = 4;
  double factor_min = 0.5;
  double factor_threshold = 0.1;
  int64_t var_freeze_step = 100000;
  int64_t var_update_scaler = 16;
  int64_t local_step_scaler = 32678;
  int64_t local_step_clipper = 16;
  std::optional<bool> foreach_loop{};  ///< JSON: "foreach".
  std::optional<bool> fused{};
  bool capturable = false;
  bool differentiable = false;
  bool operator==(const OptimizerParams&) const = default;
};

struct OptimizerConfig {
  std::string type{};  ///< Canonical spelling ("Adam", "SGD", "OneBitAdam"); empty: no block.
  OptimizerParams params{};
  bool legacy_fusion = false;
  /// Decay apart from the gradient, as AdamW has it: AdamW always, Adam unless adam_w_mode is false.
  [[nodiscard]] bool decoupled_decay() const { return type == "AdamW" || (type == "Adam" && params.adam_w_mode); }
  bool operator==(const OptimizerConfig&) const = default;
};

struct SchedulerParams {
  enum class WarmupType { log, linear };
  PerGroup warmup_min_lr{0};
  PerGroup warmup_max_lr{};  ///< Empty: WarmupLR takes each group's own lr.
  int64_t warmup_num_steps = 1000;
  WarmupType warmup_type = WarmupType::log;
  int64_t total_num_steps = 0;
  double warmup_min_ratio = 0;
  double cos_min_ratio = 1e-4;
  PerGroup lr_range_test_min_lr{1e-3};
  int64_t lr_range_test_step_size = 2000;
  double lr_range_test_step_rate = 1;
  bool lr_range_test_staircase = false;
  PerGroup cycle_min_lr{};
  PerGroup cycle_max_lr{};
  double decay_lr_rate = 0;
  int64_t cycle_first_step_size = 2000;
  std::optional<int64_t> cycle_second_step_size{};  ///< Absent: the first one's.
  int64_t cycle_first_stair_count = 0;
  std::optional<int64_t> cycle_second_stair_count{};
  int64_t decay_step_size = 0;
  bool cycle_momentum = true;
  PerGroup cycle_min_mom{0.8};
  PerGroup cycle_max_mom{0.9};
  double decay_mom_rate = 0;
  int64_t last_batch_iteration = -1;
  bool operator==(const SchedulerParams&) const = default;
};

struct SchedulerConfig {
  std::string type{};  ///< WarmupLR, WarmupDecayLR, WarmupCosineLR, LRRangeTest or OneCycle; empty: constant rate.
  SchedulerParams params{};
  bool operator==(const SchedulerConfig&) const = default;
};

enum class OffloadDevice { none, cpu, nvme };

struct OffloadParamConfig {
  OffloadDevice device = OffloadDevice::none;
  std::optional<std::string> nvme_path{};
  int64_t buffer_count = 5;
  int64_t buffer_size = 100000000;
  int64_t max_in_cpu = 1000000000;
  bool pin_memory = true;
  bool operator==(const OffloadParamConfig&) const = default;
};

struct OffloadOptimizerConfig {
  OffloadDevice device = OffloadDevice::none;
  std::optional<std::string> nvme_path{};
  int64_t buffer_count = 4;
  bool pin_memory = true;
  bool pipeline_read = false;
  bool pipeline_write = false;
  bool fast_init = false;
  double ratio = 1;
  bool super_offload = false;
  double cpuadam_cores_perc = 0.8;
  bool operator==(const OffloadOptimizerConfig&) const = default;
};

struct ZenFlowConfig {
  enum class Strategy { automatic, step, epoch };
  double topk_ratio = 0.1;
  Strategy select_strategy = Strategy::automatic;
  std::optional<int64_t> select_interval{};  ///< Absent: chosen while training.
  std::optional<int64_t> update_interval{};
  bool overlap_step = false;
  bool offload = false;
  double auto_ratio = 0.99;
  int64_t full_warm_up_rounds = 0;
  double pt_reserved_cores_perc = 0.5;
  bool operator==(const ZenFlowConfig&) const = default;
};

struct LocoConfig {
  double err_beta = 0.8;
  int64_t reset_T = 1024;
  bool operator==(const LocoConfig&) const = default;
};

struct LeafModuleConfig {
  std::vector<std::string> classes{};
  std::vector<std::string> names{};
  std::vector<std::string> name_suffixes{};
  bool operator==(const LeafModuleConfig&) const = default;
};

struct ZeroConfig {
  int64_t stage = 0;
  bool contiguous_gradients = true;
  bool reduce_scatter = true;
  std::optional<int64_t> reduce_bucket_size{};  ///< Elements.  Absent: 4 MB on the wire on a CPU, else 5e8.
  bool use_multi_rank_bucket_allreduce = true;
  bool allgather_partitions = true;
  std::optional<int64_t> allgather_bucket_size{};  ///< Likewise.
  std::optional<bool> overlap_comm{};              ///< Absent: on on a CPU; elsewhere on at stage 3.
  bool load_from_fp32_weights = true;
  bool elastic_checkpoint = false;
  OffloadParamConfig offload_param{};
  OffloadOptimizerConfig offload_optimizer{};
  ZenFlowConfig zenflow{};
  int64_t sub_group_size = 1000000000;
  int64_t stage3_prefetch_bucket_size = 50000000;
  int64_t stage3_param_persistence_threshold = 100000;
  int64_t stage3_model_persistence_threshold = INT64_MAX;
  int64_t stage3_max_live_parameters = 1000000000;
  int64_t stage3_max_reuse_distance = 1000000000;
  bool stage3_gather_16bit_weights_on_model_save = false;
  int64_t stage3_module_granularity_threshold = 0;
  bool stage3_use_all_reduce_for_fetch_params = false;
  bool stage3_allgather_sequential = false;
  bool ignore_unused_parameters = true;
  bool round_robin_gradients = false;
  int64_t zero_hpz_partition_size = 1;
  bool zero_quantized_weights = false;
  bool zero_quantized_nontrainable_weights = false;
  bool zero_quantized_gradients = false;
  LocoConfig zeropp_loco_param{};
  int64_t mics_shard_size = -1;
  bool mics_hierarchical_params_gather = false;
  bool memory_efficient_linear = true;
  bool pipeline_loading_checkpoint = false;
  bool override_module_apply = true;
  bool log_trace_cache_warnings = false;
  bool enable_sanity_checks = false;
  bool save_muon_momentum_buffer_in_memory = false;
  LeafModuleConfig leaf_module{};
  bool operator==(const ZeroConfig&) const = default;
};

struct AioConfig {
  int64_t block_size = 1048576;
  int64_t queue_depth = 8;
  int64_t intra_op_parallelism = 1;
  bool single_submit = false;
  bool overlap_events = true;
  bool use_gds = false;
  bool operator==(const AioConfig&) const = default;
};

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
  bool parallel_write_pipeline_stage = false;  ///< JSON: "parallel_write": {"pipeline_stage": …}.
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
  bool deterministic = false;
  ReduceAt reduce_at = ReduceAt::automatic;
  int64_t max_skipped_steps = 20;
  double timeout = 600;  ///< Seconds.
  std::vector<std::string> no_decay{};
  int64_t keep_checkpoints = 0;  ///< 0: all.
  bool operator==(const LockstepConfig&) const = default;
};

}  // namespace lockstep
