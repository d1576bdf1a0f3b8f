#include "config/keys.h"

#include <fmt/format.h>

namespace lockstep::config {

std::string Range::text() const {
  const auto number = [](double value) { return fmt::format("{}", value); };
  if (std::isfinite(low) && std::isfinite(high)) {
    return fmt::format("{} {} to {}{}", low_open ? "above" : "from", number(low), high_open ? "below " : "",
                       number(high));
  }
  if (std::isfinite(low)) return (low_open ? "greater than " : "at least ") + number(low);
  if (std::isfinite(high)) return (high_open ? "less than " : "at most ") + number(high);
  return "any";
}

KeyList KeyList::of(Config& config) {
  KeyList list;
  declare_training(list, config);
  declare_optimizer(list, config.optimizer);
  declare_scheduler(list, config.scheduler);
  declare_precision(list, config);
  declare_zero(list, config);
  declare_execution(list, config);
  declare_monitoring(list, config);
  return list;
}

const Key* KeyList::find(std::string_view path) const {
  for (const Key& key : keys_) {
    if (key.path == path) return &key;
  }
  return nullptr;
}

const Section* KeyList::find_section(std::string_view path) const {
  for (const Section& section : sections_) {
    if (section.path == path) return &section;
  }
  return nullptr;
}

std::vector<std::string> KeyList::names_in(std::string_view section) const {
  std::vector<std::string> names;
  const auto take = [&](const std::string& path) {
    std::string_view rest = path;
    if (!section.empty()) {
      if (!rest.starts_with(section) || rest.size() <= section.size() || rest[section.size()] != '.') return;
      rest.remove_prefix(section.size() + 1);
    }
    if (rest.find('.') == std::string_view::npos) names.emplace_back(rest);
  };
  for (const Key& key : keys_) take(key.path);
  for (const Section& each : sections_) take(each.path);
  return names;
}

std::string KeyList::path_of(std::string_view name) const {
  std::string path;
  for (const std::string& part : inside_) path += part + ".";
  return path.append(name);
}

void KeyList::open(const char* name, const char* meaning) {
  sections_.push_back({path_of(name), meaning});
  inside_.emplace_back(name);
}

void KeyList::close() { inside_.pop_back(); }

void KeyList::block(const char* name, const char* meaning) { sections_.push_back({path_of(name), meaning, true}); }

void KeyList::add(const char* name, Field field, About about) {
  keys_.push_back({path_of(name), name, about, std::move(field)});
}

}  // namespace lockstep::config
