#include "config/nearest.h"

#include <algorithm>
#include <cctype>

#include "config/json.h"

namespace lockstep::config {
namespace {

constexpr size_t kLongest = 64;  // No key is longer; bounds the work on hostile input.

std::string plain(std::string_view word) {
  std::string out;
  for (const char c : word.substr(0, kLongest)) {
    if (c != '_' && c != '-') out.push_back(static_cast<char>(std::tolower(static_cast<unsigned char>(c))));
  }
  return out;
}

size_t edits(const std::string& a, const std::string& b) {
  std::vector<std::vector<size_t>> rows(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) rows[i][0] = i;
  for (size_t j = 0; j <= b.size(); ++j) rows[0][j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t change = a[i - 1] == b[j - 1] ? 0 : 1;
      rows[i][j] = std::min({rows[i - 1][j] + 1, rows[i][j - 1] + 1, rows[i - 1][j - 1] + change});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) rows[i][j] = std::min(rows[i][j], rows[i - 2][j - 2] + 1);
    }
  }
  return rows[a.size()][b.size()];
}

}  // namespace

std::optional<std::string> nearest(std::string_view word, std::span<const std::string> names) {
  const std::string wanted = plain(word);
  if (wanted.empty() || word.size() > kLongest) return std::nullopt;
  const std::string* best = nullptr;
  size_t fewest = 0;
  for (const std::string& name : names) {
    const std::string candidate = plain(name);
    size_t count = edits(wanted, candidate);
    // A word cut short, or drawn out ("epsilon" for "eps"), is as near as two wrong letters.
    const size_t shorter = std::min(wanted.size(), candidate.size());
    const size_t longer = std::max(wanted.size(), candidate.size());
    const bool stems =
        shorter >= 3 && 3 * shorter >= longer && (wanted.starts_with(candidate) || candidate.starts_with(wanted));
    if (stems) count = std::min<size_t>(count, 2);
    if (best == nullptr || count < fewest) {
      best = &name;
      fewest = count;
    }
  }
  if (best == nullptr || fewest > std::max<size_t>(1, wanted.size() / 3) || fewest >= wanted.size())
    return std::nullopt;
  return *best;
}

std::string listed(std::span<const std::string> names) {
  std::string out;
  for (size_t i = 0; i < names.size(); ++i) {
    if (i > 0) out += i + 1 == names.size() ? " or " : ", ";
    out += quoted(names[i]);
  }
  return out;
}

}  // namespace lockstep::config
