#pragma once

#include <string>
#include <vector>

#include "lockstep/config.h"
#include "lockstep/error.h"

namespace lockstep::config {

/// All problems of a text; empty where it is fine.
inline std::vector<std::string> problems_of(const std::string& text, const ParseOptions& options = {}) {
  try {
    (void)Config::from_text(text, "c.json", options);
  } catch (const ConfigError& error) {
    return error.problems();
  }
  return {};
}

/// A whole config: a batch size, an optimizer and what is given.
inline std::string whole(const std::string& rest) {
  return R"({"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"lr": 0.001}})" +
         (rest.empty() ? "" : ", " + rest) + "}";
}

inline Config parse(const std::string& text, const ParseOptions& options = {}) {
  return Config::from_text(text, "c.json", options);
}

inline bool any_holds(const std::vector<std::string>& lines, const std::string& part) {
  for (const std::string& line : lines) {
    if (line.find(part) != std::string::npos) return true;
  }
  return false;
}

}  // namespace lockstep::config
