#pragma once

#include <cstdint>

#include "tensor/elements.h"

namespace lockstep::tensor {

/// A row-major fp32 matrix in somebody else's memory: row r starts at data + r * stride.  Transposed: the operand is
/// its transpose.
struct Operand {
  const float* data = nullptr;
  int64_t stride = 0;
  bool transposed = false;
};

/// The same in any float type.
struct TypedOperand {
  Elements elements{};
  int64_t stride = 0;
  bool transposed = false;
};

/// c [m, n] = alpha * a [m, k] x b [k, n] + beta * c.  With beta 0 the old values of c are not read.
struct Product {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  float alpha = 1.0F;
  float beta = 0.0F;
};

/// One fp32 matrix product by LibTorch's own BLAS, on strided memory, with no tensor made and no copy.  Uses LibTorch's
/// threads, or the calling thread alone inside at::parallel_for.  c does not overlap a or b.
void multiply(const Product& product, const Operand& a, const Operand& b, float* c, int64_t c_stride);

/// The same for 16-bit floats, or a mix of one of them with fp32, by half_products(); always summed in fp32, and
/// rounded once, to c's type, where the sums are not taken natively into a c of another type.
void multiply(const Product& product, const TypedOperand& a, const TypedOperand& b, MutableElements c,
              int64_t c_stride);

}  // namespace lockstep::tensor
