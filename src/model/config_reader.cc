#include "model/config_reader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lockstep/error.h"

namespace lockstep::model {
ConfigReader::ConfigReader(std::string path, const nlohmann::json& json) : path_(std::move(path)), json_(json) {}

const nlohmann::json* ConfigReader::find(const char* key) const {
  const auto found = json_.find(key);
  return found == json_.end() || found->is_null() ? nullptr : &*found;
}

int64_t ConfigReader::integer(const char* key, int64_t fallback, int64_t least) {
  constexpr int64_t kMost = int64_t{1} << 40;  // Products of two sizes stay within 64 bits for any real model.
  const nlohmann::json* value = find(key);
  if (value == nullptr) return fallback;
  if (value->is_number_integer()) {
    const auto result = value->get<int64_t>();
    if (result >= least && result <= kMost) return result;
  }
  problem(key, fmt::format("expected an integer of at least {}, got {}", least, value->dump()));
  return std::max(fallback, least);
}

double ConfigReader::number(const char* key, double fallback) {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return fallback;
  if (value->is_number() && value->get<double>() >= 0) return value->get<double>();
  problem(key, fmt::format("expected a number of at least 0, got {}", value->dump()));
  return fallback;
}

double ConfigReader::probability(const char* key, double fallback) {
  const double value = number(key, fallback);
  if (value < 1) return value;
  problem(key, fmt::format("expected a probability below 1, got {}", value));
  return fallback;
}

bool ConfigReader::flag(const char* key, bool fallback) {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return fallback;
  if (value->is_boolean()) return value->get<bool>();
  problem(key, fmt::format("expected true or false, got {}", value->dump()));
  return fallback;
}

std::string ConfigReader::text(const char* key, const char* fallback) {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return fallback;
  if (value->is_string()) return value->get<std::string>();
  problem(key, fmt::format("expected text, got {}", value->dump()));
  return fallback;
}

void ConfigReader::require(const char* key, const std::vector<std::string>& accepted) {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return;
  for (const std::string& text : accepted)
    if (*value == nlohmann::json::parse(text)) return;
  problem(key, accepted.empty()
                   ? fmt::format("{} is not implemented; leave it out", value->dump())
                   : fmt::format("{} is not implemented; implemented: {}", value->dump(), fmt::join(accepted, ", ")));
}

void ConfigReader::problem(const std::string& key, const std::string& text) {
  problems_.push_back(fmt::format("{}: {}: {}", path_, key, text));
}

void ConfigReader::finish() const {
  if (!problems_.empty()) throw ConfigError(problems_);
}

}  // namespace lockstep::model
