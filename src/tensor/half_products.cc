#include "tensor/half_products.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>

namespace lockstep::tensor {
namespace {

/// oneDNN, which computes LibTorch's 16-bit products, can be held below what the CPU has.
bool library_may_use(std::string_view isa) {
  for (const char* variable : {"ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"}) {
    const char* text = std::getenv(variable);
    if (text == nullptr) continue;
    const std::string_view limit = text;
    return limit.empty() || limit == "ALL" || limit == "DEFAULT" || limit.find(isa) != std::string_view::npos ||
           limit.find("AMX") != std::string_view::npos;
  }
  return true;
}

#if defined(__x86_64__)
bool has_bf16() { return __builtin_cpu_supports("avx512bf16") && library_may_use("BF16"); }
bool has_amx_bf16() { return __builtin_cpu_supports("amx-bf16") && library_may_use("AMX"); }
bool has_fp16() { return __builtin_cpu_supports("avx512fp16") && library_may_use("FP16"); }
#else
bool has_bf16() { return false; }
bool has_amx_bf16() { return false; }
bool has_fp16() { return false; }
#endif

thread_local HalfProducts t_products = HalfProducts::widened;

}  // namespace

std::string_view name_of(HalfProducts products) { return products == HalfProducts::native ? "native" : "widened"; }

std::span<const HalfUnit> half_units() {
  static const std::array<HalfUnit, 3> units{{{DataType::bf16, "amx_bf16", has_amx_bf16()},
                                              {DataType::bf16, "avx512_bf16", has_bf16()},
                                              {DataType::fp16, "avx512_fp16", has_fp16()}}};
  return units;
}

HalfProducts best_half_products(DataType type) {
  const bool native =
      std::ranges::any_of(half_units(), [type](const HalfUnit& unit) { return unit.type == type && unit.present; });
  return native ? HalfProducts::native : HalfProducts::widened;
}

HalfProducts half_products() { return t_products; }

HalfProductsScope::HalfProductsScope(std::optional<HalfProducts> products)
    : before_(std::exchange(t_products, products.value_or(t_products))) {}
HalfProductsScope::~HalfProductsScope() { t_products = before_; }

}  // namespace lockstep::tensor
