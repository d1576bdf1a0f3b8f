#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "lockstep/config_training.h"

namespace lockstep::tensor {

/// How matrix products of 16-bit floats are computed.
enum class HalfProducts {
  native,   ///< By LibTorch's 16-bit products, which round an fp32 operand first.
  widened,  ///< By fp32 products of blocks that are widened, exactly, on the way.
};

[[nodiscard]] std::string_view name_of(HalfProducts products);

/// One row of the table that best_half_products() reads: with `unit`, products of `type` are faster natively.
/// `lockstep bench gemm` measures whether that holds on a host.
struct HalfUnit {
  DataType type;
  std::string_view unit;  ///< As the kernel's cpuinfo names it.
  bool present = false;   ///< On this CPU, and not switched off by ONEDNN_MAX_CPU_ISA.
};
[[nodiscard]] std::span<const HalfUnit> half_units();

/// What this CPU does faster for products of `type`.
[[nodiscard]] HalfProducts best_half_products(DataType type);

/// What this thread does now: widened outside of any scope.
[[nodiscard]] HalfProducts half_products();

/// While it lives, this thread multiplies so; none: as before.  The choice changes the last bits of results, so all
/// ranks must make the same.
class HalfProductsScope {
 public:
  explicit HalfProductsScope(std::optional<HalfProducts> products);
  ~HalfProductsScope();
  HalfProductsScope(const HalfProductsScope&) = delete;
  HalfProductsScope& operator=(const HalfProductsScope&) = delete;

 private:
  const HalfProducts before_;
};

}  // namespace lockstep::tensor
