#pragma once

#include <cstdint>

namespace at {
class Tensor;
}

namespace lockstep::model {

/// Throws ConfigError unless tokens is int64 [batch, T] with T at most `positions`.
void check_tokens(const at::Tensor& tokens, int64_t positions);

}  // namespace lockstep::model
