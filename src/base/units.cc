#include "base/units.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>

#include "lockstep/error.h"

namespace lockstep::base {
namespace {

template <class Real>
std::string shortest_text(Real value) {
  if (!std::isfinite(value)) return "null";
  return fmt::format("{}", value);
}

}  // namespace

std::string format_bytes(int64_t bytes) {
  static constexpr std::array kUnits{"KiB", "MiB", "GiB", "TiB"};
  if (std::abs(bytes) < 1024) return fmt::format("{} bytes", bytes);
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  for (value /= 1024; std::abs(value) >= 1024 && unit + 1 < kUnits.size(); ++unit) value /= 1024;
  return fmt::format("{:.2f} {}", value, kUnits[unit]);
}

std::string format_duration(double seconds) {
  const auto whole = static_cast<int64_t>(std::llround(std::max(0.0, seconds)));
  if (whole < 60) return fmt::format("{}s", whole);
  if (whole < 3600) return fmt::format("{}m{:02}s", whole / 60, whole % 60);
  return fmt::format("{}h{:02}m", whole / 3600, whole % 3600 / 60);
}

std::string format_count(int64_t count) {
  std::string digits = std::to_string(count);
  const size_t first = digits.front() == '-' ? 1 : 0;
  for (size_t at = digits.size(); at > first + 3;) digits.insert(at -= 3, 1, ',');
  return digits;
}

int64_t parse_bytes(std::string_view text) {
  static constexpr std::array<std::pair<std::string_view, double>, 10> kUnits{{{"", 1.0},
                                                                               {"B", 1.0},
                                                                               {"KB", 1e3},
                                                                               {"MB", 1e6},
                                                                               {"GB", 1e9},
                                                                               {"TB", 1e12},
                                                                               {"KiB", 1024.0},
                                                                               {"MiB", 1048576.0},
                                                                               {"GiB", 1073741824.0},
                                                                               {"TiB", 1099511627776.0}}};
  double number = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc{} && std::isfinite(number) && number >= 0) {
    const std::string_view suffix(rest, static_cast<size_t>(text.data() + text.size() - rest));
    for (const auto& [name, factor] : kUnits)
      if (suffix == name && number * factor < 9e18) return static_cast<int64_t>(number * factor);
  }
  throw ConfigError(fmt::format("\"{}\" is not a size in bytes; write for example 1073741824, 512MiB or 2GB", text));
}

std::string shortest(float value) { return shortest_text(value); }
std::string shortest(double value) { return shortest_text(value); }

}  // namespace lockstep::base
