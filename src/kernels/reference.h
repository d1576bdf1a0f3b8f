#pragma once

#include "kernels/adam.h"
#include "kernels/casts.h"
#include "kernels/cross_entropy.h"
#include "kernels/gelu.h"
#include "kernels/norm.h"
#include "kernels/sums.h"
#include "kernels/updates.h"

/// The kernels as plain loops, for the tests to compare with: same arguments, no vectors, fp64 where order or rounding
/// is not part of the contract.
namespace lockstep::kernels::reference {

void adam(const AdamStep& step, const AdamArrays& arrays, int64_t numel);
void sgd(const SgdStep& step, float* value, const float* gradient, float* momentum_buffer, int64_t numel);
void adagrad(const AdagradStep& step, float* value, const float* gradient, float* sum, int64_t numel);
void rmsprop(const RmspropStep& step, const RmspropArrays& arrays, int64_t numel);

/// Equal bits to the kernel.
bool sum_mean(std::span<const float* const> contributions, int64_t numel, float* mean, std::span<uint8_t> non_finite);
/// Equal bits to the kernel.
bool add_squares(const float* values, int64_t numel, ExactSum& sum);

/// Equal bits to the kernel, but for the payload of a NaN.
void widen(HalfType type, const uint16_t* from, float* to, int64_t numel);
void narrow(HalfType type, const float* from, uint16_t* to, int64_t numel);

void gelu_forward(Matrix shape, const float* x, const float* bias, float* y, float* derivative);
void gelu_backward(Matrix shape, const float* dy, const float* derivative, float* dx, float* bias_gradient);
void layer_norm_forward(Matrix shape, const LayerNormForward& arrays);
void layer_norm_backward(Matrix shape, const LayerNormBackward& arrays);
void cross_entropy(LogitsShape shape, float* logits, const int64_t* labels, float scale, double* loss);

}  // namespace lockstep::kernels::reference
