#include "tensor/matmul.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "tensor/half_products.h"

// The Fortran entry of the BLAS inside libtorch_cpu.  Weak: a LibTorch that does not export one leaves it null.
extern "C" __attribute__((weak)) void sgemm_(const char* transpose_a, const char* transpose_b, const int* m,
                                             const int* n, const int* k, const float* alpha, const float* a,
                                             const int* lda, const float* b, const int* ldb, const float* beta,
                                             float* c, const int* ldc);

namespace lockstep::tensor {
namespace {

constexpr int64_t kBlockRows = 512;             // Widened at a time: a block and its product stay near the core.
constexpr int64_t kConvertedPerTask = 1 << 15;  // Elements; less is not worth another thread.

at::Tensor view_of(const TypedOperand& operand, int64_t rows, int64_t columns) {
  const auto stride = [&]() -> std::array<int64_t, 2> {
    if (operand.transposed) return {1, operand.stride};
    return {operand.stride, 1};
  }();
  // from_blob wants a mutable address; the operand is only read.
  return at::from_blob(const_cast<void*>(operand.elements.data), {rows, columns}, stride, operand.elements.type);
}

void multiply_tensors(const Product& product, const at::Tensor& a, const at::Tensor& b, MutableElements c,
                      int64_t c_stride) {
  const c10::NoGradGuard no_gradients;
  at::Tensor result = at::from_blob(c.data, {product.m, product.n}, {c_stride, 1}, c.type);
  at::addmm_out(result, result, a, b, product.beta, product.alpha);
}

TypedOperand typed(const Operand& operand) { return {{operand.data, at::kFloat}, operand.stride, operand.transposed}; }

bool fits_int(std::initializer_list<int64_t> sizes) {
  return std::all_of(sizes.begin(), sizes.end(), [](int64_t size) { return size <= std::numeric_limits<int>::max(); });
}

/// A row-major matrix as it lies in memory, for an operand or a result.
struct Rows {
  int64_t rows = 0;
  int64_t columns = 0;
};

void convert_rows(Rows shape, Elements from, int64_t from_stride, MutableElements to, int64_t to_stride) {
  const int64_t grain = std::max<int64_t>(1, kConvertedPerTask / std::max<int64_t>(1, shape.columns));
  at::parallel_for(0, shape.rows, grain, [&](int64_t begin, int64_t end) {
    if (from_stride == shape.columns && to_stride == shape.columns) {
      convert(from.from(begin * from_stride), to.from(begin * to_stride), (end - begin) * shape.columns);
      return;
    }
    for (int64_t row = begin; row < end; ++row)
      convert(from.from(row * from_stride), to.from(row * to_stride), shape.columns);
  });
}

at::Tensor scratch(int64_t numel) { return at::empty({numel}, at::kFloat); }

/// An operand in fp32: where it lies, or a widened copy without gaps.
class Widened {
 public:
  /// shape: as the operand lies in memory.
  Widened(const TypedOperand& operand, Rows shape) : operand_{nullptr, operand.stride, operand.transposed} {
    if (operand.elements.type == at::kFloat) {
      operand_.data = static_cast<const float*>(operand.elements.data);
      return;
    }
    copy_ = scratch(shape.rows * shape.columns);
    convert_rows(shape, operand.elements, operand.stride, mutable_elements_of(copy_), shape.columns);
    operand_.data = copy_.const_data_ptr<float>();
    operand_.stride = shape.columns;
  }

  [[nodiscard]] const Operand& operand() const { return operand_; }

 private:
  Operand operand_;
  at::Tensor copy_;
};

/// A result in fp32: where it shall lie, or scratch that commit() rounds to there.
class Staged {
 public:
  Staged(MutableElements c, int64_t c_stride, Rows shape, bool reads_old) : c_(c), c_stride_(c_stride), shape_(shape) {
    if (c.type == at::kFloat) {
      data_ = static_cast<float*>(c.data);
      stride_ = c_stride;
      return;
    }
    copy_ = scratch(shape.rows * shape.columns);
    data_ = copy_.mutable_data_ptr<float>();
    stride_ = shape.columns;
    if (reads_old) convert_rows(shape, {c.data, c.type}, c_stride, {data_, at::kFloat}, stride_);
  }

  [[nodiscard]] float* data() const { return data_; }
  [[nodiscard]] int64_t stride() const { return stride_; }
  void commit() const {
    if (copy_.defined()) convert_rows(shape_, {data_, at::kFloat}, stride_, c_, c_stride_);
  }

 private:
  MutableElements c_;
  int64_t c_stride_;
  Rows shape_;
  at::Tensor copy_;
  float* data_ = nullptr;
  int64_t stride_ = 0;
};

Rows lying(const TypedOperand& operand, int64_t rows, int64_t columns) {
  return operand.transposed ? Rows{columns, rows} : Rows{rows, columns};
}

TypedOperand moved(const TypedOperand& operand, int64_t elements) {
  return {operand.elements.from(elements), operand.stride, operand.transposed};
}

/// Block after block of c's rows.
void multiply_row_blocks(const Product& product, const TypedOperand& a, const TypedOperand& b, MutableElements c,
                         int64_t c_stride) {
  const Widened right(b, lying(b, product.k, product.n));
  for (int64_t first = 0; first < product.m; first += kBlockRows) {
    Product block = product;
    block.m = std::min(kBlockRows, product.m - first);
    const Widened left(moved(a, first * a.stride), {block.m, block.k});
    const Staged result(c.from(first * c_stride), c_stride, {block.m, block.n}, product.beta != 0);
    multiply(block, left.operand(), right.operand(), result.data(), result.stride());
    result.commit();
  }
}

/// Block after block of the rows that are summed over: a lies as [k, m].
void multiply_summed_blocks(const Product& product, const TypedOperand& a, const TypedOperand& b, MutableElements c,
                            int64_t c_stride) {
  const Staged result(c, c_stride, {product.m, product.n}, product.beta != 0);
  for (int64_t first = 0; first < std::max<int64_t>(product.k, 1); first += kBlockRows) {
    Product block = product;
    block.k = std::min(kBlockRows, product.k - first);
    if (first > 0) block.beta = 1.0F;
    const Widened left(moved(a, first * a.stride), {block.k, block.m});
    const TypedOperand b_block = moved(b, b.transposed ? first : first * b.stride);
    const Widened right(b_block, lying(b_block, block.k, block.n));
    multiply(block, left.operand(), right.operand(), result.data(), result.stride());
  }
  result.commit();
}

/// The operand as a tensor of `type`, rounded if it is wider.
at::Tensor rounded(const TypedOperand& operand, int64_t rows, int64_t columns, at::ScalarType type) {
  if (operand.elements.type == type) return view_of(operand, rows, columns);
  const Rows shape = lying(operand, rows, columns);
  const at::Tensor copy = at::empty({shape.rows, shape.columns}, type);
  convert_rows(shape, operand.elements, operand.stride, mutable_elements_of(copy), shape.columns);
  return operand.transposed ? copy.t() : copy;
}

void multiply_natively(const Product& product, const TypedOperand& a, const TypedOperand& b, MutableElements c,
                       int64_t c_stride) {
  const at::ScalarType type = a.elements.type == at::kFloat ? b.elements.type : a.elements.type;
  const at::Tensor left = rounded(a, product.m, product.k, type);
  const at::Tensor right = rounded(b, product.k, product.n, type);
  if (c.type == type) {
    multiply_tensors(product, left, right, c, c_stride);
    return;
  }
  LOCKSTEP_CHECK(c.type == at::kFloat && product.alpha == 1.0F && (product.beta == 0.0F || product.beta == 1.0F));
  const c10::NoGradGuard no_gradients;
  const at::Tensor rounded_product = at::mm(left, right).contiguous();
  const Elements from = elements_of(rounded_product);
  if (product.beta == 0.0F) {
    convert_rows({product.m, product.n}, from, product.n, c, c_stride);
    return;
  }
  for (int64_t row = 0; row < product.m; ++row)
    accumulate(from.from(row * product.n), static_cast<float*>(c.from(row * c_stride).data), product.n);
}

}  // namespace

void multiply(const Product& product, const Operand& a, const Operand& b, float* c, int64_t c_stride) {
  if (product.m == 0 || product.n == 0) return;
  if (sgemm_ == nullptr || product.k == 0 ||
      !fits_int({product.m, product.n, product.k, a.stride, b.stride, c_stride})) {
    multiply_tensors(product, view_of(typed(a), product.m, product.k), view_of(typed(b), product.k, product.n),
                     {c, at::kFloat}, c_stride);
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

void multiply(const Product& product, const TypedOperand& a, const TypedOperand& b, MutableElements c,
              int64_t c_stride) {
  if (product.m == 0 || product.n == 0) return;
  const auto is_fp32 = [](at::ScalarType type) { return type == at::kFloat; };
  const bool halves = !is_fp32(a.elements.type) || !is_fp32(b.elements.type);
  if (!halves && is_fp32(c.type)) {
    multiply(product, {static_cast<const float*>(a.elements.data), a.stride, a.transposed},
             {static_cast<const float*>(b.elements.data), b.stride, b.transposed}, static_cast<float*>(c.data),
             c_stride);
  } else if (halves && half_products() == HalfProducts::native && product.k > 0) {
    multiply_natively(product, a, b, c, c_stride);
  } else if (a.transposed) {
    multiply_summed_blocks(product, a, b, c, c_stride);
  } else {
    multiply_row_blocks(product, a, b, c, c_stride);
  }
}

}  // namespace lockstep::tensor
