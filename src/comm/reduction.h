#pragma once

#include <string_view>

#include "lockstep/communicator.h"

namespace lockstep::comm {

/// The one reduction of the engine: every contribution, the owner's own included, is in the wire dtype; the owner of a
/// slice sums them in rank order in fp32, multiplies by 1/size and rounds the mean once to the wire dtype.
///
/// contributions: 1-D, size() equal slices one after the other, slice r for rank r.  mean: 1-D, one slice; may be the
/// caller's own slice of `contributions`.  Moves (size-1)/size of the bytes each way.  Sends and receives are posted by
/// the call, receives first; the sums run in the handle's wait().  message.tag is used for all pairs.
/// non_finite_rank: where not null, wait() sets it to the lowest rank whose contribution to the own slice holds an
/// infinity or a NaN, and leaves it alone when none does.
[[nodiscard]] Handle start_reduce_scatter_mean(Communicator& group, const at::Tensor& contributions,
                                               const at::Tensor& mean, Message message, int* non_finite_rank = nullptr);

/// Gathers equal slices: slice r of `full` becomes rank r's `slice`, which may be its own place in `full`.
[[nodiscard]] Handle start_all_gather(Communicator& group, const at::Tensor& slice, const at::Tensor& full,
                                      Message message);

}  // namespace lockstep::comm
