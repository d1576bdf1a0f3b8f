#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "lockstep/export.h"

namespace LOCKSTEP_API lockstep {

enum class LogLevel { debug, info, warning, error, critical, off };

/// Reads a level's name in any letter case ("info", "WARNING").  Throws ConfigError listing the names.
LogLevel parse_log_level(std::string_view name);

/// Where the library's messages go.  A value that is handed down; there is no global logger, and a
/// default-constructed one drops everything.  The sink may be called from any thread and must not throw.
class Log {
 public:
  using Sink = std::function<void(LogLevel, std::string_view)>;

  Log() = default;
  Log(Sink sink, LogLevel least) : sink_(std::move(sink)), least_(least) {}

  [[nodiscard]] bool enabled(LogLevel level) const { return sink_ && level >= least_; }
  void write(LogLevel level, std::string_view text) const {
    if (enabled(level)) sink_(level, text);
  }
  void debug(std::string_view text) const { write(LogLevel::debug, text); }
  void info(std::string_view text) const { write(LogLevel::info, text); }
  void warning(std::string_view text) const { write(LogLevel::warning, text); }
  void error(std::string_view text) const { write(LogLevel::error, text); }

 private:
  Sink sink_;
  LogLevel least_ = LogLevel::off;
};

}  // namespace lockstep
