#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace lockstep::checkpoint {

inline constexpr const char* kStateFile = "state.json";
inline constexpr const char* kLatestFile = "latest";
inline constexpr const char* kOldSuffix = ".old";  ///< Of the checkpoint that a new one of the same tag replaces.

/// Throws ConfigError unless `tag` can be a folder's name here: not empty, at most 200 bytes, no slash or control
/// character, no dot in front, not "latest", not ending in ".old".
void check_tag(const std::string& tag);

/// "weights-0-of-2.safetensors".
std::string weights_file(int rank, int world);
std::string optimizer_file(int rank, int world);

/// A run of one parameter's elements as a tensor's name in a file: "wte.weight@4096+64" for values of the weight,
/// "exp_avg/wte.weight@4096+64" for those of an optimizer state.
struct PieceName {
  std::string state{};  ///< Empty for weights.
  std::string parameter{};
  int64_t offset = 0;
  int64_t numel = 0;
  bool operator==(const PieceName&) const = default;
};

std::string to_text(const PieceName& name);
/// optimizer: whether names start with a state.  Empty where the text is not such a name.
std::optional<PieceName> parse_piece_name(const std::string& text, bool optimizer);

}  // namespace lockstep::checkpoint
