#include "comm/agreement.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>

#include "comm/transport.h"
#include "lockstep/error.h"

namespace lockstep::comm {

void verify_agreement(Communicator& group, uint64_t hash, std::string_view what) {
  // One name for all subjects: ranks that compare different things learn so from the hashes, not from a deadline.
  const uint64_t mine = mix(hash, what);
  std::vector<uint64_t> all(static_cast<size_t>(group.size()));
  group.all_gather_records(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)), "agreement");

  std::map<uint64_t, std::vector<int>> ranks_by_value;
  for (size_t rank = 0; rank < all.size(); ++rank) ranks_by_value[all[rank]].push_back(static_cast<int>(rank));
  if (ranks_by_value.size() == 1) return;
  std::vector<std::vector<int>> parties;
  for (auto& [value, ranks] : ranks_by_value) parties.push_back(std::move(ranks));
  std::ranges::sort(parties, [](const auto& a, const auto& b) { return a.front() < b.front(); });
  std::vector<std::string> texts;
  for (const auto& ranks : parties)
    texts.push_back(fmt::format("{} ({:016x})", ranks_text(ranks), all[static_cast<size_t>(ranks.front())]));
  throw ConfigError(
      fmt::format("the ranks differ in {}: {}; start every rank with the same program, config, model and arguments",
                  what, fmt::join(texts, " against ")));
}

}  // namespace lockstep::comm
