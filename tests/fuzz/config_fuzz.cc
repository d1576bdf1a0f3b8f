// Feeds bytes to the config reader.  Whatever they are, it returns a Config that prints and reads back equal, or throws
// ConfigError with at least one message in the documented form.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "lockstep/config.h"
#include "lockstep/error.h"

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

/// What was printed must read, and to the same value.
bool reads_back(const lockstep::Config& config) {
  try {
    return lockstep::Config::from_text(config.to_json_text(), "f", {.world_size = config.world_size}) == config;
  } catch (const lockstep::ConfigError&) {
    return false;
  }
}

void check(std::string_view text, const lockstep::ParseOptions& options) {
  try {
    const lockstep::Config config = lockstep::Config::from_text(text, "f", options);
    require(config.train_batch_size ==
            config.train_micro_batch_size_per_gpu * config.gradient_accumulation_steps * config.replicas);
    require(reads_back(config));
  } catch (const lockstep::ConfigError& error) {
    require(!error.problems().empty());
    for (const std::string& problem : error.problems()) require(problem.starts_with("f: line "));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  check(text, {});
  check(text, {.world_size = 4, .lenient = true, .hidden_size = 64, .total_steps = 100});
  return 0;
}
