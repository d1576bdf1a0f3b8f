#include "lockstep/config.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/files.h"
#include "config/draft.h"
#include "lockstep/error.h"

namespace lockstep {

Config Config::from_file(const std::string& path, const ParseOptions& options) {
  return from_text(base::host_files().read_text(path), path, options);
}

Config Config::from_text(std::string_view text, const std::string& name, const ParseOptions& options) {
  using namespace config;
  if (options.world_size && *options.world_size < 1)
    throw ConfigError(fmt::format("world size: {} is no number of ranks; give 1 or more", *options.world_size));
  Draft draft(name, options);
  std::vector<Fault> faults;
  const Node root = parse_json(text, faults);
  for (const Fault& fault : faults) draft.problem(fault.at, fault.path, fault.text);
  if (root.kind == Node::Kind::object) {
    draft.mark_given("", root.at);
    read_members(draft, root, "");
    resolve_automatic(draft);
    resolve_batch(draft);
    check_rules(draft);
    check_capabilities(draft);
    note_effects(draft);
  }
  if (!draft.problems.empty()) {
    std::ranges::stable_sort(draft.problems, {}, &Problem::at);
    std::vector<std::string> texts;
    for (Problem& problem : draft.problems) texts.push_back(std::move(problem.text));
    throw ConfigError(std::move(texts));
  }
  return std::move(draft.config);
}

std::string Origin::text() const {
  switch (source) {
    case Source::file:
      return fmt::format("file, line {}, column {}", line, column);
    case Source::automatic:
      return "auto: " + detail;
    case Source::derived:
      return "derived: " + detail;
    case Source::defaulted:
      break;
  }
  return "default";
}

Origin Config::provenance(std::string_view path) const {
  const auto found = reading.origins.find(path);
  return found == reading.origins.end() ? Origin{} : found->second;
}

namespace config {

Position Draft::place(std::string_view path) const {
  while (true) {
    const auto found = places_.find(path);
    if (found != places_.end()) return found->second;
    if (path.empty()) return {};
    const size_t dot = path.rfind('.');
    path = dot == std::string_view::npos ? std::string_view() : path.substr(0, dot);
  }
}

std::string Draft::message(Position at, std::string_view path, std::string_view text) const {
  return fmt::format("{}: line {}, column {}: {}{}{}", config.reading.file, at.line, at.column, path,
                     path.empty() ? "" : ": ", text);
}

void Draft::origin(const std::string& path, Origin::Source source, std::string detail) {
  Origin& origin = config.reading.origins[path];
  // What is found for an "auto" is still an "auto".
  if (origin.source != Origin::Source::automatic) origin.source = source;
  origin.detail = std::move(detail);
  const auto place = places_.find(path);
  if (place == places_.end()) return;
  origin.line = place->second.line;
  origin.column = place->second.column;
}

}  // namespace config
}  // namespace lockstep
