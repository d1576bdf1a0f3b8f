#include "model/tokens.h"

#include <ATen/core/Tensor.h>
#include <fmt/format.h>

#include "lockstep/error.h"

namespace lockstep::model {

void check_tokens(const at::Tensor& tokens, int64_t positions) {
  if (tokens.dim() != 2 || tokens.scalar_type() != at::kLong)
    throw ConfigError(fmt::format("the model's input: expected int64 tokens [batch, length], got {} with {} dims",
                                  c10::toString(tokens.scalar_type()), tokens.dim()));
  if (tokens.size(1) > positions)
    throw ConfigError(fmt::format("a sequence of {} tokens: the model takes at most {}; use a shorter one",
                                  tokens.size(1), positions));
}

}  // namespace lockstep::model
