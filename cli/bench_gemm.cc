#include "bench_gemm.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <nlohmann/json.hpp>

#include "bench_timing.h"
#include "kernels/simd.h"
#include "tensor/elements.h"
#include "tensor/half_products.h"
#include "tensor/matmul.h"

namespace lockstep::cli {
namespace {

using tensor::HalfProducts;

constexpr double kGiga = 1e9;
constexpr int64_t kRoofSize = 1024;
constexpr double kAlike = 0.9;  // A path this near to the faster one is as good a choice.

/// c [m, n] = a [m, k] x b [k, n], where a or b may lie transposed.
struct Shape {
  const char* name = "";
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  bool a_transposed = false;
  bool b_transposed = false;
};

class ProductTimer {
 public:
  ProductTimer(const Shape& shape, at::ScalarType type)
      : shape_(shape),
        a_(at::full({shape.m, shape.k}, 0.5, type)),
        b_(at::full({shape.k, shape.n}, 0.25, type)),
        c_(at::empty({shape.m, shape.n}, type)) {}

  /// Seconds of one product.
  double run(HalfProducts how) {
    const tensor::HalfProductsScope scope(how);
    const tensor::Product product{.m = shape_.m, .n = shape_.n, .k = shape_.k};
    const auto start = std::chrono::steady_clock::now();
    tensor::multiply(product, {tensor::elements_of(a_), shape_.a_transposed ? shape_.m : shape_.k, shape_.a_transposed},
                     {tensor::elements_of(b_), shape_.b_transposed ? shape_.k : shape_.n, shape_.b_transposed},
                     tensor::mutable_elements_of(c_), shape_.n);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

 private:
  const Shape& shape_;
  at::Tensor a_, b_, c_;
};

double flops(const Shape& shape) {
  return 2 * static_cast<double>(shape.m) * static_cast<double>(shape.n) * static_cast<double>(shape.k);
}

/// Rates in GFLOP/s; the paths take turns, so that a disturbed moment meets all of them.
struct Rates {
  double fp32 = 0;
  double native = 0;
  double widened = 0;
};

Rates measure(const Shape& shape, at::ScalarType type, int repeats) {
  ProductTimer fp32(shape, at::kFloat);
  ProductTimer half(shape, type);
  Rates best;
  for (int turn = 0; turn <= repeats; ++turn) {
    const Rates now{.fp32 = flops(shape) / kGiga / fp32.run(HalfProducts::native),
                    .native = flops(shape) / kGiga / half.run(HalfProducts::native),
                    .widened = flops(shape) / kGiga / half.run(HalfProducts::widened)};
    if (turn == 0) continue;
    best = {.fp32 = std::max(best.fp32, now.fp32),
            .native = std::max(best.native, now.native),
            .widened = std::max(best.widened, now.widened)};
    if (now.native < now.widened / 20) break;  // A hundred times slower: once is enough.
  }
  return best;
}

BenchRow row_of(const Shape& shape, DataType type, const Rates& rates, double roof) {
  const HalfProducts chosen = tensor::best_half_products(type);
  const HalfProducts faster = rates.native > rates.widened ? HalfProducts::native : HalfProducts::widened;
  const double chosen_rate = chosen == HalfProducts::native ? rates.native : rates.widened;
  const double best_rate = std::max(rates.native, rates.widened);
  return {{"name", "gemm"},
          {"type", type == DataType::bf16 ? "bf16" : "fp16"},
          {"product", shape.name},
          {"m", shape.m},
          {"n", shape.n},
          {"k", shape.k},
          {"threads", at::get_num_threads()},
          {"fp32_GFLOPs", rounded(rates.fp32)},
          {"native_GFLOPs", rounded(rates.native)},
          {"widened_GFLOPs", rounded(rates.widened)},
          {"roof_GFLOPs", rounded(roof)},
          {"frac", rounded(chosen_rate / roof)},
          {"faster", name_of(faster)},
          {"table", name_of(chosen)},
          {"table_holds", chosen_rate >= kAlike * best_rate},
          {"isa", kernels::simd_level()}};
}

}  // namespace

std::vector<BenchRow> measure_gemm(const GemmBenchOptions& options) {
  at::set_num_threads(options.threads > 0 ? options.threads : static_cast<int>(allowed_cpus().size()));
  const int64_t inner = 4 * options.width;
  const std::array shapes{
      Shape{.name = "forward", .m = options.tokens, .n = inner, .k = options.width},
      Shape{.name = "input's gradient", .m = options.tokens, .n = options.width, .k = inner, .b_transposed = true},
      Shape{.name = "weight's gradient", .m = options.width, .n = inner, .k = options.tokens, .a_transposed = true},
      Shape{
          .name = "classes", .m = options.tokens / 4, .n = options.classes, .k = options.width, .b_transposed = true}};
  const Shape square{.name = "square", .m = kRoofSize, .n = kRoofSize, .k = kRoofSize};
  std::vector<BenchRow> rows;
  for (const std::string& name : options.types) {
    const DataType type = name == "bf16" ? DataType::bf16 : DataType::fp16;
    const Rates large = measure(square, tensor::scalar_type(type), options.repeats);
    for (const Shape& shape : shapes) {
      const Rates rates = measure(shape, tensor::scalar_type(type), options.repeats);
      const double roof = std::max({large.fp32, large.native, rates.fp32, rates.native});
      rows.push_back(row_of(shape, type, rates, roof));
    }
  }
  return rows;
}

std::string gemm_table(const std::vector<BenchRow>& rows) {
  std::vector<std::vector<std::string>> table{
      {"type", "product", "m x n x k", "fp32", "native", "widened", "roof", "chosen / roof", "faster", "table", ""}};
  const auto number = [](const BenchRow& row, const char* key) {
    return fmt::format("{:.3g}", row.at(key).get<double>());
  };
  for (const BenchRow& row : rows) {
    table.push_back({row.at("type"), row.at("product"),
                     fmt::format("{} x {} x {}", row.at("m").dump(), row.at("n").dump(), row.at("k").dump()),
                     number(row, "fp32_GFLOPs"), number(row, "native_GFLOPs"), number(row, "widened_GFLOPs"),
                     number(row, "roof_GFLOPs"), number(row, "frac"), row.at("faster"), row.at("table"),
                     row.at("table_holds").get<bool>() ? ""
                                                       : "the table is wrong for this host: set "
                                                         "lockstep.half_products"});
  }
  return to_columns(table);
}

}  // namespace lockstep::cli
