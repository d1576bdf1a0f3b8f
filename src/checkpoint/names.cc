#include "checkpoint/names.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string_view>

#include "lockstep/error.h"

namespace lockstep::checkpoint {
namespace {

constexpr size_t kLongestTag = 200;

const char* problem_of(const std::string& tag) {
  if (tag.empty()) return "it is empty";
  if (tag.size() > kLongestTag) return "it is longer than 200 bytes";
  if (tag.front() == '.') return "it starts with a dot";
  if (tag == kLatestFile) return "\"latest\" is the pointer to the newest checkpoint";
  if (tag.ends_with(kOldSuffix)) return "\".old\" marks a checkpoint that is being replaced";
  if (tag.find('/') != std::string::npos) return "it holds a slash";
  const auto is_control = [](unsigned char c) { return c < 0x20 || c == 0x7f; };
  if (std::any_of(tag.begin(), tag.end(), is_control)) return "it holds a control character";
  return nullptr;
}

std::optional<int64_t> parse_count(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

}  // namespace

void check_tag(const std::string& tag) {
  if (const char* problem = problem_of(tag))
    throw ConfigError(
        fmt::format("checkpoint tag \"{}\": {}; use a plain folder name such as \"global_step100\"", tag, problem));
}

std::string weights_file(int rank, int world) { return fmt::format("weights-{}-of-{}.safetensors", rank, world); }
std::string optimizer_file(int rank, int world) { return fmt::format("optimizer-{}-of-{}.safetensors", rank, world); }

std::string to_text(const PieceName& name) {
  return fmt::format("{}{}{}@{}+{}", name.state, name.state.empty() ? "" : "/", name.parameter, name.offset,
                     name.numel);
}

std::optional<PieceName> parse_piece_name(const std::string& text, bool optimizer) {
  // Names of parameters may hold any character, so the position is read from the end and the state from the front.
  const size_t at = text.rfind('@');
  if (at == std::string::npos) return std::nullopt;
  const size_t plus = text.find('+', at);
  if (plus == std::string::npos) return std::nullopt;
  const std::string_view view(text);
  const auto offset = parse_count(view.substr(at + 1, plus - at - 1));
  const auto numel = parse_count(view.substr(plus + 1));
  if (!offset || !numel) return std::nullopt;
  const size_t slash = optimizer ? text.find('/') : std::string::npos;
  if (optimizer && (slash == std::string::npos || slash == 0 || slash > at)) return std::nullopt;
  const size_t begin = optimizer ? slash + 1 : 0;
  return PieceName{.state = optimizer ? text.substr(0, slash) : "",
                   .parameter = text.substr(begin, at - begin),
                   .offset = *offset,
                   .numel = *numel};
}

}  // namespace lockstep::checkpoint
