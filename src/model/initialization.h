#pragma once

#include <cstdint>

#include "lockstep/layer.h"

namespace lockstep::model {

/// Gives a parameter its first values, which depend on nothing but its specification and the seed.
/// values: contiguous fp32 on the CPU, of the specification's shape.
void fill_initial(const at::Tensor& values, const ParameterSpec& spec, uint64_t seed);

/// The same for a part alone: the parameter's elements from `first` on, as many as `values` (one dim) has.
void fill_initial_slice(const at::Tensor& values, const ParameterSpec& spec, uint64_t seed, int64_t first);

}  // namespace lockstep::model
