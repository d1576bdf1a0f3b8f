#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/export.h"

namespace LOCKSTEP_API lockstep {

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

}  // namespace lockstep
