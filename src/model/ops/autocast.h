#pragma once

#include <ATen/autocast_mode.h>

#include <optional>

namespace lockstep::model::ops {

/// The type that autocast asks for where tensors like `x` live, if it is on.
inline std::optional<at::ScalarType> autocast_type(const at::Tensor& x) {
  const at::DeviceType device = x.device().type();
  if (!at::autocast::is_autocast_enabled(device)) return std::nullopt;
  return at::autocast::get_autocast_dtype(device);
}

/// While it lives, autocast is off where `x` lives, so that an operation may choose the types of its inputs.
class WithoutAutocast {
 public:
  explicit WithoutAutocast(const at::Tensor& x)
      : device_(x.device().type()), off_(at::autocast::get_autocast_dispatch_key_from_device_type(device_)) {}

  /// `x`, or its copy in `type`; autocast keeps the copies of parameters for the pass.  Undefined stays undefined.
  [[nodiscard]] at::Tensor cast(const at::Tensor& x, at::ScalarType type) const {
    return x.defined() ? at::autocast::cached_cast(type, x, device_) : x;
  }

 private:
  at::DeviceType device_;
  c10::impl::ExcludeDispatchKeyGuard off_;
};

}  // namespace lockstep::model::ops
