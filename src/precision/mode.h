#pragma once

#include <optional>

#include "lockstep/config.h"
#include "precision/loss_scaler.h"

namespace lockstep::precision {

/// What the keys of fp16, bf16, torch_autocast and amp come to.
struct Mode {
  DataType weights = DataType::fp32;   ///< Of weights, activations and the gradients that backward leaves.
  bool master_weights = true;          ///< fp32 ones beside 16-bit weights.
  std::optional<DataType> autocast{};  ///< Forward runs operator by operator in this type or in fp32.
  bool casts_inputs = false;           ///< Floating inputs of forward become `weights`.
  LossScalerOptions scaler{};

  /// The 16-bit type of matrix products, if there is one.
  [[nodiscard]] std::optional<DataType> product_type() const {
    if (autocast) return autocast;
    return weights == DataType::fp32 ? std::nullopt : std::optional(weights);
  }
};

/// Requires: a config that its rules accept.
[[nodiscard]] Mode mode_of(const Config& config);

}  // namespace lockstep::precision
