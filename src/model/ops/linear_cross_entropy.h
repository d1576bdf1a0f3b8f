#pragma once

namespace at {
class Tensor;
}

namespace lockstep::model::ops {

/// The mean cross-entropy of hidden x weight^T against labels, a scalar in fp32, without ever holding all logits: rows
/// are taken in chunks, whose logits become their own gradient in place.  hidden [n, width], weight [classes, width],
/// labels [n] int64; rows with label -100 do not count.  Where gradients are wanted they are computed in forward, chunk
/// by chunk.  First-order gradients only.
at::Tensor linear_cross_entropy(const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& labels);

}  // namespace lockstep::model::ops
