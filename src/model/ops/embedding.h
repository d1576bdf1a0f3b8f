#pragma once

namespace at {
class Tensor;
}

namespace lockstep::model::ops {

/// Rows of `weight` [rows, width] by index [...], int64: [..., width].  The gradients of rows used more than once are
/// added up in fp32.  First-order gradients only, in 16-bit floats.
at::Tensor embedding(const at::Tensor& weight, const at::Tensor& index);

}  // namespace lockstep::model::ops
