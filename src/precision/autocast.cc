#include "precision/autocast.h"

#include <ATen/autocast_mode.h>

namespace lockstep::precision {

namespace autocast = at::autocast;

AutocastScope::AutocastScope(std::optional<at::ScalarType> type, at::DeviceType device, bool keeps_casts)
    : on_(type.has_value()), device_(device) {
  if (!on_) return;
  enabled_before_ = autocast::is_autocast_enabled(device);
  cache_before_ = autocast::is_autocast_cache_enabled();
  type_before_ = autocast::get_autocast_dtype(device);
  autocast::increment_nesting();
  autocast::set_autocast_enabled(device, true);
  autocast::set_autocast_dtype(device, *type);
  autocast::set_autocast_cache_enabled(keeps_casts);
}

AutocastScope::~AutocastScope() {
  if (!on_) return;
  if (autocast::decrement_nesting() == 0) autocast::clear_cache();
  autocast::set_autocast_enabled(device_, enabled_before_);
  autocast::set_autocast_dtype(device_, type_before_);
  autocast::set_autocast_cache_enabled(cache_before_);
}

}  // namespace lockstep::precision
