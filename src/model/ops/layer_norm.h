#pragma once

namespace at {
class Tensor;
}

namespace lockstep::model::ops {

/// Layer norm over the last dim: x [..., n]; weight and bias [n].  First-order gradients only.
at::Tensor layer_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, double epsilon);

}  // namespace lockstep::model::ops
