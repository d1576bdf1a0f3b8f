#pragma once

namespace at {
class Tensor;
}

namespace lockstep::model::ops {

/// How a linear map's weight lies in memory.
enum class WeightLayout {
  in_out,  ///< [in, out], as GPT-2's Conv1D has it.
  out_in,  ///< [out, in], as torch's Linear has it.
};

/// x [..., in] to [..., out]; bias [out] may be undefined.
at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, WeightLayout layout);

/// GELU in its tanh form of linear(x, weight, bias), bias and activation in one pass over the product; the derivative
/// is kept from forward, so backward evaluates no tanh.  bias must be defined.  First-order gradients only.
at::Tensor linear_gelu(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, WeightLayout layout);

}  // namespace lockstep::model::ops
