#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace lockstep::model {

/// Reads the settings of a Hugging Face config.json and collects everything that is wrong with them.  A setting that is
/// absent or null has its default.  Borrows the JSON.
class ConfigReader {
 public:
  /// json: the whole file, an object.
  ConfigReader(std::string path, const nlohmann::json& json);

  [[nodiscard]] int64_t integer(const char* key, int64_t fallback, int64_t least = 1);
  [[nodiscard]] double number(const char* key, double fallback);  ///< At least 0.
  [[nodiscard]] double probability(const char* key, double fallback);
  [[nodiscard]] bool flag(const char* key, bool fallback);
  [[nodiscard]] std::string text(const char* key, const char* fallback);

  /// A problem unless the setting is absent, null or one of `accepted` (JSON texts: "true", "\"silu\"", "1").
  void require(const char* key, const std::vector<std::string>& accepted);
  void problem(const std::string& key, const std::string& text);

  [[nodiscard]] const nlohmann::json& json() const { return json_; }
  /// Throws ConfigError with every problem found.
  void finish() const;

 private:
  /// The setting; null where absent.
  [[nodiscard]] const nlohmann::json* find(const char* key) const;

  std::string path_;
  const nlohmann::json& json_;
  std::vector<std::string> problems_;
};

}  // namespace lockstep::model
