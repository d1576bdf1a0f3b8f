#pragma once

#include <ATen/core/Tensor.h>

#include "lockstep/communicator.h"

namespace lockstep::comm {

/// The mean over ranks, in place and on every rank, of values that are mostly zeros: blocks of 64 elements that hold
/// anything else travel from every rank to every other, as indices and values of `wire_type`.
/// values: 1-D, contiguous, fp32, a multiple of 64.  The bits are those of start_reduce_scatter_mean and
/// start_all_gather.  non_finite_rank: the first rank whose values are not finite, else unchanged; may be null.
/// Collective; blocks.  Throws CommError.
void sparse_mean(Communicator& group, const at::Tensor& values, at::ScalarType wire_type, Message message,
                 int* non_finite_rank);

}  // namespace lockstep::comm
