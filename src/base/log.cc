#include "lockstep/log.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "lockstep/error.h"

namespace lockstep {

LogLevel parse_log_level(std::string_view name) {
  static constexpr std::array<std::pair<std::string_view, LogLevel>, 7> kNames{{{"debug", LogLevel::debug},
                                                                                {"info", LogLevel::info},
                                                                                {"warning", LogLevel::warning},
                                                                                {"warn", LogLevel::warning},
                                                                                {"error", LogLevel::error},
                                                                                {"critical", LogLevel::critical},
                                                                                {"off", LogLevel::off}}};
  std::string lower(name);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  for (const auto& [known, level] : kNames)
    if (lower == known) return level;
  throw ConfigError("log level \"" + std::string(name) + "\" is unknown; use debug, info, warning, error or critical");
}

}  // namespace lockstep
