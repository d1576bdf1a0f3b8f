#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/export.h"

namespace LOCKSTEP_API lockstep {

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

}  // namespace lockstep
