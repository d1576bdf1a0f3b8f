#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::config {

/// The name that `word` was most likely meant to be, by edits (a swap of neighbours is one), not counting letter case,
/// underscores and hyphens; none where even the best is far.
std::optional<std::string> nearest(std::string_view word, std::span<const std::string> names);

/// "\"a\", \"b\" or \"c\"".
std::string listed(std::span<const std::string> names);

}  // namespace lockstep::config
