#pragma once

#include <cstdint>

#include "lockstep/layer.h"

namespace lockstep::cli {

/// Floating-point operations of one training step on `sequences` sequences of `length` tokens, matrix products only:
/// 2 a weight and token forward, twice that backward, and attention's two products over the half of all pairs that the
/// causal mask leaves.  Counts the two-dimensional weights of all layers but the first (the embedding) and of the head.
double step_flops(const LayerStack& model, int64_t sequences, int64_t length);

}  // namespace lockstep::cli
