#pragma once

#include <cstdint>

namespace lockstep::monitor {

/// The largest resident set this process has had, in bytes; 0 where the host does not tell.
int64_t peak_rss_bytes();

/// The resident set now, in bytes; 0 where the host does not tell.
int64_t rss_bytes();

}  // namespace lockstep::monitor
