#include "tensor/matmul.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "tensor/half_products.h"

namespace lockstep::tensor {
namespace {

at::Tensor random(int64_t rows, int64_t columns, uint64_t seed, at::ScalarType type) {
  return at::randn({rows, columns}, at::make_generator<at::CPUGeneratorImpl>(seed), at::kFloat).to(type);
}

/// A product whose operands lie transposed where asked, of the shapes [m, k] and [k, n].
struct Case {
  int64_t m, n, k;
  bool a_transposed, b_transposed;
};

at::Tensor as_operand(const at::Tensor& lying, bool transposed) { return transposed ? lying.t() : lying; }

/// The largest error of `multiply` against fp64, over the size of the largest sum of absolute terms.
double error_of(const Case& c, at::ScalarType a_type, at::ScalarType b_type, at::ScalarType c_type, float beta) {
  const at::Tensor a = c.a_transposed ? random(c.k, c.m, 1, a_type) : random(c.m, c.k, 1, a_type);
  const at::Tensor b = c.b_transposed ? random(c.n, c.k, 2, b_type) : random(c.k, c.n, 2, b_type);
  const at::Tensor result = random(c.m, c.n, 3, c_type);
  const at::Tensor wide_a = as_operand(a, c.a_transposed).to(at::kDouble);
  const at::Tensor wide_b = as_operand(b, c.b_transposed).to(at::kDouble);
  const at::Tensor expected = at::matmul(wide_a, wide_b) + static_cast<double>(beta) * result.to(at::kDouble);
  const at::Tensor size = at::matmul(wide_a.abs(), wide_b.abs());
  multiply({.m = c.m, .n = c.n, .k = c.k, .beta = beta}, {elements_of(a), a.size(1), c.a_transposed},
           {elements_of(b), b.size(1), c.b_transposed}, mutable_elements_of(result), c.n);
  if (result.numel() == 0) return 0;
  return ((result.to(at::kDouble) - expected).abs().max() / at::clamp_min(size.max(), 1)).item<double>();
}

class HalfMultiply : public testing::TestWithParam<at::ScalarType> {
 protected:
  /// Half a unit of the type's last place.
  [[nodiscard]] double rounding() const { return GetParam() == at::kHalf ? 0x1p-11 : 0x1p-8; }
};

TEST_P(HalfMultiply, IsTheProductRoundedOnce) {
  const at::ScalarType type = GetParam();
  for (const HalfProducts how : {HalfProducts::widened, HalfProducts::native}) {
    const HalfProductsScope scope(how);
    for (const auto& [m, n, k] : {std::array<int64_t, 3>{0, 3, 5},
                                  {1, 1, 1},
                                  {3, 5, 0},
                                  {7, 13, 5},
                                  {65, 33, 48},
                                  {1030, 17, 9},
                                  {9, 17, 1030}}) {
      for (const bool a_transposed : {false, true}) {
        for (const bool b_transposed : {false, true}) {
          for (const float beta : {0.0F, 1.0F}) {
            SCOPED_TRACE(testing::Message()
                         << name_of(how) << " " << m << "x" << n << "x" << k << (a_transposed ? " a'" : "")
                         << (b_transposed ? " b'" : "") << " beta " << beta);
            const Case c{m, n, k, a_transposed, b_transposed};
            const double once = 1.01 * rounding();
            EXPECT_LE(error_of(c, type, type, type, beta), once + 1e-6);
            // An fp32 result of a native product is rounded on the way; of a widened one it is not.
            EXPECT_LE(error_of(c, type, type, at::kFloat, beta), how == HalfProducts::widened ? 1e-6 : once);
            EXPECT_LE(error_of(c, at::kFloat, type, at::kFloat, beta), how == HalfProducts::widened ? 1e-6 : 3 * once);
          }
        }
      }
    }
  }
}

TEST_P(HalfMultiply, WidenedIsAtLeastAsAccurateAsNative) {
  const at::ScalarType type = GetParam();
  for (const Case& c : {Case{64, 96, 512, false, false}, {512, 64, 300, true, false}, {70, 70, 2000, false, true}}) {
    const auto error = [&](HalfProducts how) {
      const HalfProductsScope scope(how);
      return error_of(c, type, type, type, 0);
    };
    EXPECT_LE(error(HalfProducts::widened), error(HalfProducts::native) * 1.0001);
  }
}

INSTANTIATE_TEST_SUITE_P(Types, HalfMultiply, testing::Values(at::kBFloat16, at::kHalf),
                         [](const auto& info) { return std::string(c10::toString(info.param)); });

TEST(HalfProductsTest, ScopesNest) {
  EXPECT_EQ(half_products(), HalfProducts::widened);
  {
    const HalfProductsScope outer(HalfProducts::native);
    const HalfProductsScope none(std::nullopt);
    EXPECT_EQ(half_products(), HalfProducts::native);
    {
      const HalfProductsScope inner(HalfProducts::widened);
      EXPECT_EQ(half_products(), HalfProducts::widened);
    }
    EXPECT_EQ(half_products(), HalfProducts::native);
  }
  EXPECT_EQ(half_products(), HalfProducts::widened);
}

// oneDNN that is held below AVX-512 has no fast 16-bit product whatever the CPU has.
TEST(HalfProductsTest, HeedsTheLibrarysLimit) {
  ::setenv("ONEDNN_MAX_CPU_ISA", "AVX2", 1);
  EXPECT_EQ(best_half_products(DataType::bf16), HalfProducts::widened);
  EXPECT_EQ(best_half_products(DataType::fp16), HalfProducts::widened);
  ::unsetenv("ONEDNN_MAX_CPU_ISA");
}

}  // namespace
}  // namespace lockstep::tensor
