#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep::base {

/// "1.50 GiB", "12 bytes".
std::string format_bytes(int64_t bytes);

/// "1h02m", "3m05s", "12s".
std::string format_duration(double seconds);

/// "12,345,678".
std::string format_count(int64_t count);

/// Reads "1073741824", "512MiB", "1.5GiB", "2GB".  Throws ConfigError.
int64_t parse_bytes(std::string_view text);

/// The shortest text that reads back to the same number; "null" for a non-finite one, as JSON wants it.
std::string shortest(float value);
std::string shortest(double value);

/// `value` rounded up to a multiple of `step`.  Requires: value >= 0, step > 0.
constexpr int64_t round_up(int64_t value, int64_t step) { return (value + step - 1) / step * step; }

}  // namespace lockstep::base
