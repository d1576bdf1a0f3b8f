#include "tensor/matmul.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <limits>

// The Fortran entry of the BLAS inside libtorch_cpu.  Weak: a LibTorch that does not export one leaves it null.
extern "C" __attribute__((weak)) void sgemm_(const char* transpose_a, const char* transpose_b, const int* m,
                                             const int* n, const int* k, const float* alpha, const float* a,
                                             const int* lda, const float* b, const int* ldb, const float* beta,
                                             float* c, const int* ldc);

namespace lockstep::tensor {
namespace {

at::Tensor view_of(const Operand& operand, int64_t rows, int64_t columns) {
  const auto stride = [&]() -> std::array<int64_t, 2> {
    if (operand.transposed) return {1, operand.stride};
    return {operand.stride, 1};
  }();
  // from_blob wants a mutable address; the operand is only read.
  return at::from_blob(const_cast<float*>(operand.data), {rows, columns}, stride, at::kFloat);
}

void multiply_tensors(const Product& product, const Operand& a, const Operand& b, float* c, int64_t c_stride) {
  const c10::NoGradGuard no_gradients;
  at::Tensor result = at::from_blob(c, {product.m, product.n}, {c_stride, 1}, at::kFloat);
  at::addmm_out(result, result, view_of(a, product.m, product.k), view_of(b, product.k, product.n), product.beta,
                product.alpha);
}

bool fits_int(std::initializer_list<int64_t> sizes) {
  return std::all_of(sizes.begin(), sizes.end(), [](int64_t size) { return size <= std::numeric_limits<int>::max(); });
}

}  // namespace

void multiply(const Product& product, const Operand& a, const Operand& b, float* c, int64_t c_stride) {
  if (product.m == 0 || product.n == 0) return;
  if (sgemm_ == nullptr || product.k == 0 ||
      !fits_int({product.m, product.n, product.k, a.stride, b.stride, c_stride})) {
    multiply_tensors(product, a, b, c, c_stride);
    return;
  }
  // BLAS counts columns first: a row-major product is the product of the transposes in the other order.
  const int m = static_cast<int>(product.n);
  const int n = static_cast<int>(product.m);
  const int k = static_cast<int>(product.k);
  const int lda = static_cast<int>(std::max<int64_t>(b.stride, 1));
  const int ldb = static_cast<int>(std::max<int64_t>(a.stride, 1));
  const int ldc = static_cast<int>(std::max<int64_t>(c_stride, 1));
  sgemm_(b.transposed ? "T" : "N", a.transposed ? "T" : "N", &m, &n, &k, &product.alpha, b.data, &lda, a.data, &ldb,
         &product.beta, c, &ldc);
}

}  // namespace lockstep::tensor
