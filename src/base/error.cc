#include "lockstep/error.h"

#include <fmt/format.h>

#include "base/check.h"

namespace lockstep {

ConfigError::ConfigError(std::vector<std::string> problems)
    : Error(fmt::format("{}", fmt::join(problems, "\n"))), problems_(std::move(problems)) {}

ConfigError::ConfigError(const std::string& problem) : ConfigError(std::vector<std::string>{problem}) {}

namespace base {

void check_failed(const char* file, int line, const char* condition, const std::string& detail) {
  throw std::logic_error(fmt::format("{}:{}: check failed: {}{}{}; this is a bug in Lockstep", file, line, condition,
                                     detail.empty() ? "" : ": ", detail));
}

}  // namespace base
}  // namespace lockstep
