#include <fmt/format.h>

#include <algorithm>

#include "base/units.h"
#include "config/draft.h"
#include "config/nearest.h"

namespace lockstep::config {
namespace {

const char* kind_text(Kind kind) {
  switch (kind) {
    case Kind::boolean:
      return "true or false";
    case Kind::integer:
      return "a whole number";
    case Kind::number:
      return "a number";
    case Kind::text:
      return "text in double quotes";
    case Kind::choice:
      return "one of its names";
    case Kind::texts:
      return "a list of texts";
    case Kind::integers:
      return "a list of whole numbers";
    case Kind::pair:
      return "a list of two numbers";
    case Kind::per_group:
      return "a number, or a list with one per parameter group";
  }
  return "";
}

std::string wanted(const Key& key) {
  if (key.field.kind == Kind::choice) {
    std::vector<std::string> names;
    for (const Choice& choice : key.field.choices) names.emplace_back(choice.name);
    return listed(names);
  }
  std::string text = kind_text(key.field.kind);
  if (key.about.range.bounded()) text += " " + key.about.range.text();
  if (key.field.nullable) text += ", or null";
  return text;
}

std::string shown(const Node& node) {
  constexpr size_t kLongest = 60;
  switch (node.kind) {
    case Node::Kind::object:
      return "an object";
    case Node::Kind::array:
      return "a list";
    case Node::Kind::string:
      return node.text.size() > kLongest ? "this text" : quoted(node.text);
    default: {
      const std::string text = compact_json(node);
      return text.size() > kLongest ? "this number" : text;
    }
  }
}

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

/// Reads one key's value, reporting what does not fit.
class ValueReader {
 public:
  ValueReader(Draft& draft, const Key& key, std::string path) : draft_(draft), key_(key), path_(std::move(path)) {}

  [[nodiscard]] std::optional<Value> read(const Node& node) {
    switch (key_.field.kind) {
      case Kind::boolean:
        return boolean(node);
      case Kind::integer: {
        const std::optional<int64_t> value = integer(node);
        return value ? std::optional<Value>(*value) : std::nullopt;
      }
      case Kind::number: {
        const std::optional<double> value = number(node);
        return value ? std::optional<Value>(*value) : std::nullopt;
      }
      case Kind::text:
        if (node.kind != Node::Kind::string) return refuse(node, fmt::format("{} is not text", shown(node)));
        return node.text;
      case Kind::choice:
        return choice(node);
      case Kind::per_group:
        if (node.kind != Node::Kind::array) {
          const std::optional<double> value = number(node);
          return value ? std::optional<Value>(std::vector{*value}) : std::nullopt;
        }
        if (node.items.empty()) return refuse(node, "an empty list");
        return list<double>(node, [this](const Node& item) { return number(item); });
      case Kind::pair:
        if (node.kind == Node::Kind::array && node.items.size() != 2)
          return refuse(node, fmt::format("a list of {}", node.items.size()));
        return list<double>(node, [this](const Node& item) { return number(item); });
      case Kind::integers:
        return list<int64_t>(node, [this](const Node& item) { return integer(item); });
      case Kind::texts:
        return list<std::string>(node, [this](const Node& item) -> std::optional<std::string> {
          if (item.kind == Node::Kind::string) return item.text;
          refuse(item, fmt::format("{} is not text", shown(item)));
          return std::nullopt;
        });
    }
    return std::nullopt;
  }

 private:
  std::nullopt_t refuse(const Node& node, std::string_view what) {
    // A broken node was reported where it stands.
    if (node.kind != Node::Kind::broken)
      draft_.problem(node.at, path_, fmt::format("{}; write {}", what, wanted(key_)));
    return std::nullopt;
  }

  std::optional<Value> boolean(const Node& node) {
    if (node.kind == Node::Kind::boolean) return node.boolean;
    const std::string word = node.kind == Node::Kind::string ? lower(node.text) : node.text;
    const char* meant = nullptr;
    if (word == "true" || word == "yes" || word == "on" || word == "1") meant = "true";
    if (word == "false" || word == "no" || word == "off" || word == "0") meant = "false";
    if (meant == nullptr) return refuse(node, fmt::format("{} is neither true nor false", shown(node)));
    draft_.problem(node.at, path_, fmt::format("{} is no boolean; write {}", shown(node), meant));
    return std::nullopt;
  }

  std::optional<int64_t> integer(const Node& node) {
    if (node.kind == Node::Kind::string) return text_for_number(node);
    if (node.kind != Node::Kind::number) return refuse(node, fmt::format("{} is not a whole number", shown(node)));
    if (!node.is_integer) {
      const bool large = std::abs(node.number) > 9007199254740992.0;
      return refuse(node, large ? fmt::format("{} is too large", shown(node))
                                : fmt::format("{} is not a whole number", shown(node)));
    }
    if (!key_.about.range.holds(static_cast<double>(node.integer)))
      return refuse(node, fmt::format("{} is out of range", shown(node)));
    return node.integer;
  }

  std::optional<double> number(const Node& node) {
    if (node.kind == Node::Kind::string) return text_for_number(node);
    if (node.kind != Node::Kind::number) return refuse(node, fmt::format("{} is not a number", shown(node)));
    if (!key_.about.range.holds(node.number)) return refuse(node, fmt::format("{} is out of range", shown(node)));
    return node.number;
  }

  std::nullopt_t text_for_number(const Node& node) {
    std::vector<Fault> faults;
    const bool numeric = !node.text.empty() && node.text.find_first_not_of("0123456789+-.eE") == std::string::npos &&
                         parse_json("{\"x\":" + node.text + "}", faults).kind == Node::Kind::object && faults.empty();
    if (!numeric) return refuse(node, fmt::format("{} is text", shown(node)));
    draft_.problem(node.at, path_,
                   fmt::format("{} is text; write the number without quotes: {}", shown(node), node.text));
    return std::nullopt;
  }

  std::optional<Value> choice(const Node& node) {
    if (node.kind != Node::Kind::string) return refuse(node, fmt::format("{} is not text", shown(node)));
    std::vector<std::string> names;
    for (const Choice& each : key_.field.choices) {
      if (node.text == each.name || holds_word(each.others, node.text)) return std::string(each.name);
      names.emplace_back(each.name);
    }
    const std::optional<std::string> close = nearest(node.text, names);
    draft_.problem(
        node.at, path_,
        close ? fmt::format("{} is not one of its values; write {} (of {})", shown(node), quoted(*close), wanted(key_))
              : fmt::format("{} is not one of its values; write {}", shown(node), wanted(key_)));
    return std::nullopt;
  }

  template <class T, class ReadItem>
  std::optional<Value> list(const Node& node, ReadItem read_item) {
    if (node.kind != Node::Kind::array) return refuse(node, fmt::format("{} is not a list", shown(node)));
    std::vector<T> values;
    bool whole = true;
    const std::string path = path_;
    for (size_t i = 0; i < node.items.size(); ++i) {
      path_ = fmt::format("{}[{}]", path, i);
      const std::optional<T> value = read_item(node.items[i]);
      whole = whole && value.has_value();
      if (value) values.push_back(*value);
    }
    path_ = path;
    if (!whole) return std::nullopt;
    return values;
  }

  Draft& draft_;
  const Key& key_;
  std::string path_;
};

bool is_automatic(const Key& key, const Node& node) {
  if (node.kind != Node::Kind::string || node.text != "auto" || key.field.kind == Kind::text) return false;
  return std::ranges::none_of(key.field.choices,
                              [](const Choice& choice) { return std::string_view(choice.name) == "auto"; });
}

void read_type(Draft& draft, const Node& object, const std::string& section, std::string& type,
               std::span<const TypeName> types) {
  for (const Node::Member& member : object.members) {
    if (member.key != "type" || member.value.kind != Node::Kind::string) continue;
    type = canonical_type(types, member.value.text);
    if (!type.empty()) return;
    std::vector<std::string> names;
    for (const TypeName& each : types) {
      if (each.declared) names.emplace_back(each.name);
    }
    const std::optional<std::string> close = nearest(member.value.text, names);
    draft.problem(
        member.value.at, section + ".type",
        fmt::format("{} is unknown; write {}", quoted(member.value.text), close ? quoted(*close) : listed(names)));
    draft.mark_failed(section + ".type");
  }
}

bool params_declared(std::span<const TypeName> types, const std::string& type) {
  return std::ranges::any_of(types, [&](const TypeName& each) { return type == each.name && each.declared; });
}

/// Names that a section takes, for the chosen type where it has one.
std::vector<std::string> legal_names(const Draft& draft, const std::string& section) {
  std::vector<std::string> names = draft.keys.names_in(section);
  const bool optimizer = section == "optimizer.params";
  if (!optimizer && section != "scheduler.params") return names;
  const std::string& type = optimizer ? draft.config.optimizer.type : draft.config.scheduler.type;
  std::erase_if(names, [&](const std::string& name) {
    const Key* key = draft.keys.find(section + "." + name);
    return key->about.takers != nullptr && !holds_word(key->about.takers, type);
  });
  return names;
}

void unknown_key(Draft& draft, const std::string& section, const Node::Member& member, std::string_view what) {
  const std::string path = section.empty() ? member.key : section + "." + member.key;
  const std::vector<std::string> names = legal_names(draft, section);
  std::string fix;
  if (member.key.find('.') != std::string::npos) {
    fix = "write blocks inside each other: {\"block\": {\"key\": value}}";
  } else if (const std::optional<std::string> close = nearest(member.key, names)) {
    fix = "write " + quoted(*close);
  } else {
    for (const Key& key : draft.keys.keys()) {
      if (key.name != member.key || key.path == path || member.key == "enabled") continue;
      const std::string home = key.path.substr(0, key.path.size() - key.name.size());
      fix = fmt::format("its place is {}", home.empty() ? "the top level" : home.substr(0, home.size() - 1));
      break;
    }
  }
  if (fix.empty()) fix = "legal here: " + listed(names);
  const std::string text = fmt::format("{}; {}", what, fix);
  if (draft.options.lenient) {
    draft.config.reading.warnings.push_back(draft.message(member.at, path, text));
  } else {
    draft.problem(member.at, path, text);
  }
}

/// A declared key by its own or another name; null where there is none.
const Key* find_key(const Draft& draft, const std::string& section, const std::string& name) {
  const std::string prefix = section.empty() ? "" : section + ".";
  if (const Key* key = draft.keys.find(prefix + name)) return key;
  for (const Key& key : draft.keys.keys()) {
    if (key.about.other_names == nullptr || !holds_word(key.about.other_names, name)) continue;
    if (key.path == prefix + key.name) return &key;
  }
  return nullptr;
}

void read_key(Draft& draft, const Key& key, const Node::Member& member) {
  if (draft.given(key.path)) {
    draft.problem(member.at, key.path, fmt::format("given twice, here as {}; keep one", quoted(member.key)));
    return;
  }
  if (key.about.takers != nullptr) {
    const std::string& type =
        key.path.starts_with("optimizer") ? draft.config.optimizer.type : draft.config.scheduler.type;
    if (!holds_word(key.about.takers, type)) {
      const std::string section = key.path.substr(0, key.path.size() - key.name.size() - 1);
      unknown_key(draft, section, member, fmt::format("{} does not take it", type));
      return;
    }
  }
  read_value(draft, key, key.path, member.value);
}

void read_section(Draft& draft, const Section& section, const Node::Member& member) {
  const Node& node = member.value;
  if (node.kind == Node::Kind::null || node.kind == Node::Kind::broken) return;
  if (draft.given(section.path)) {
    draft.problem(member.at, section.path, fmt::format("given twice, here as {}; keep one", quoted(member.key)));
    return;
  }
  draft.mark_given(section.path, node.at);
  if (node.kind != Node::Kind::object) {
    draft.problem(node.at, section.path, fmt::format("expected an object, found {}; write {{ ... }}", shown(node)));
    draft.mark_failed(section.path);
    return;
  }
  if (section.opaque) {
    draft.config.blocks[section.path] = compact_json(node);
    return;
  }
  OptimizerConfig& optimizer = draft.config.optimizer;
  SchedulerConfig& scheduler = draft.config.scheduler;
  if (section.path == "optimizer") {
    read_type(draft, node, section.path, optimizer.type, optimizer_types());
    set_type_defaults(optimizer);
  } else if (section.path == "scheduler") {
    read_type(draft, node, section.path, scheduler.type, scheduler_types());
    set_type_defaults(scheduler);
  } else if (section.path == "optimizer.params" && !params_declared(optimizer_types(), optimizer.type)) {
    return;
  } else if (section.path == "scheduler.params" && !params_declared(scheduler_types(), scheduler.type)) {
    return;
  }
  read_members(draft, node, section.path);
}

}  // namespace

bool holds_word(const char* list, std::string_view word) {
  if (list == nullptr || word.empty()) return false;
  std::string_view rest = list;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find(' '), rest.size());
    if (rest.substr(0, end) == word) return true;
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return false;
}

void read_value(Draft& draft, const Key& key, const std::string& path, const Node& node) {
  draft.mark_given(path, node.at);
  if (node.kind == Node::Kind::broken) {
    draft.mark_failed(path);
    return;
  }
  if (key.about.type_names && node.kind == Node::Kind::string) {  // Its value was read ahead of its block.
    draft.origin(path, Origin::Source::file, "");
    return;
  }
  if (node.kind == Node::Kind::null) {
    draft.set_aside(path);
    const bool top_level = path.find('.') == std::string::npos;
    if (key.field.nullable) {
      key.field.set(nullptr);
    } else if (!top_level && !key.about.type_names) {
      draft.problem(node.at, path, fmt::format("null is not legal here; write {}, or remove the key", wanted(key)));
      draft.mark_failed(path);
    }
    return;
  }
  if (is_automatic(key, node)) {
    draft.set_aside(path);
    if (key.about.automatic == nullptr) {
      draft.problem(node.at, path,
                    fmt::format("\"auto\" has no meaning for this key; write {}, or remove the key", wanted(key)));
      draft.mark_failed(path);
    } else {
      draft.origin(path, Origin::Source::automatic, key.about.automatic);
    }
    return;
  }
  const std::optional<Value> value = ValueReader(draft, key, path).read(node);
  if (!value) {
    draft.mark_failed(path);
    return;
  }
  key.field.set(*value);
  draft.origin(path, Origin::Source::file, "");
}

void read_members(Draft& draft, const Node& object, const std::string& section) {
  for (const Node::Member& member : object.members) {
    draft.mark_written(section.empty() ? member.key : section + "." + member.key);
  }
  for (const Node::Member& member : object.members) {
    if (read_legacy(draft, section, member)) continue;
    const std::string path = section.empty() ? member.key : section + "." + member.key;
    if (member.key.find('.') != std::string::npos) {
      unknown_key(draft, section, member, "unknown key");
    } else if (const Key* key = find_key(draft, section, member.key)) {
      read_key(draft, *key, member);
    } else if (const Section* inner = draft.keys.find_section(path)) {
      read_section(draft, *inner, member);
    } else {
      unknown_key(draft, section, member, "unknown key");
    }
  }
}

}  // namespace lockstep::config
