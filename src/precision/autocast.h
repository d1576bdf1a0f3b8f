#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace lockstep::precision {

/// While it lives, operators of this thread run in `type` where they tolerate that, and in fp32 where not; LibTorch's
/// lists decide.  An empty type changes nothing.
class AutocastScope {
 public:
  /// keeps_casts: a parameter is cast once for the scope; false where its memory comes and goes.
  AutocastScope(std::optional<at::ScalarType> type, at::DeviceType device, bool keeps_casts);
  ~AutocastScope();
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;

 private:
  const bool on_;
  const at::DeviceType device_;
  bool enabled_before_ = false;
  bool cache_before_ = false;
  at::ScalarType type_before_ = at::kFloat;
};

}  // namespace lockstep::precision
