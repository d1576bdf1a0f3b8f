#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace lockstep::tensor {

/// Where in a run a layer is called: all that its random numbers depend on.
struct LayerCall {
  uint64_t seed = 0;
  int64_t step = 0;
  int64_t micro_batch = 0;
  int64_t data_rank = 0;
  int64_t layer = 0;
  int64_t call = 0;  ///< How often the layer was called before in this micro-batch.
};

/// The seed of a layer's generator.  Frozen by a test: resumed runs draw the same numbers.
uint64_t layer_seed(const LayerCall& call);

/// values[i] = deviation times number first + i of the normal stream (seed, name).  A number depends on nothing but
/// (seed, name, its index), on any host, so any slice of a parameter can be filled alone.  Frozen by a test.
void fill_normal(std::span<float> values, double deviation, uint64_t seed, std::string_view name, int64_t first = 0);

}  // namespace lockstep::tensor
