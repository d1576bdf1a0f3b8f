#include "precision/mode.h"

#include <cmath>

namespace lockstep::precision {
namespace {

/// PyTorch's GradScaler: 65536, doubled after 2000 clean steps, halved at once.  Apex has the same.
LossScalerOptions grad_scaler() { return {.dynamic = true, .scale = 65536, .window = 2000, .hysteresis = 1}; }

Mode fp16_mode(const Fp16Config& fp16) {
  const bool dynamic = fp16.loss_scale == 0;
  return {.weights = DataType::fp16,
          .casts_inputs = fp16.auto_cast,
          .scaler = {.dynamic = dynamic,
                     .scale = dynamic ? std::ldexp(1.0, static_cast<int>(fp16.initial_scale_power)) : fp16.loss_scale,
                     .window = fp16.loss_scale_window,
                     .hysteresis = fp16.hysteresis,
                     .consecutive_hysteresis = fp16.consecutive_hysteresis,
                     .min_scale = fp16.min_loss_scale}};
}

Mode autocast_mode(DataType type) {
  Mode mode{.autocast = type};
  if (type == DataType::fp16) mode.scaler = grad_scaler();
  return mode;
}

/// Apex's levels: O0 fp32, O1 by operator, O2 fp16 weights with fp32 masters, O3 fp16 alone.
Mode apex_mode(const AmpConfig& amp) {
  const std::string level = amp.opt_level.value_or("O1");
  if (level == "O0") return {};
  Mode mode = level == "O1" ? autocast_mode(DataType::fp16)
                            : Mode{.weights = DataType::fp16, .casts_inputs = true, .scaler = grad_scaler()};
  if (level == "O3") {
    mode.master_weights = false;
    mode.scaler = {};
  }
  if (amp.master_weights) mode.master_weights = *amp.master_weights;
  mode.scaler.max_scale = amp.max_loss_scale;
  if (amp.min_loss_scale) mode.scaler.min_scale = *amp.min_loss_scale;
  if (amp.loss_scale) {
    mode.scaler.dynamic = false;
    mode.scaler.scale = *amp.loss_scale;
  }
  return mode;
}

Mode amp_mode(const AmpConfig& amp) {
  using Backend = AmpConfig::Backend;
  const Backend backend = amp.fp16_backend.value_or(amp.opt_level ? Backend::apex : Backend::torch);
  return backend == Backend::apex ? apex_mode(amp) : autocast_mode(DataType::fp16);
}

}  // namespace

Mode mode_of(const Config& config) {
  if (config.fp16.enabled) return fp16_mode(config.fp16);
  if (config.bf16.enabled) return {.weights = DataType::bf16};
  if (config.torch_autocast.enabled) return autocast_mode(config.torch_autocast.dtype.value_or(DataType::bf16));
  if (config.amp.enabled) return amp_mode(config.amp);
  return {};
}

}  // namespace lockstep::precision
