// The declared list as text for people: docs/config.md and `lockstep config explain`.
#include <fmt/format.h>

#include <algorithm>

#include "config/draft.h"
#include "config/nearest.h"
#include "lockstep/error.h"

namespace lockstep {
namespace config {
namespace {

std::string type_text(const Key& key) {
  std::string text;
  switch (key.field.kind) {
    case Kind::boolean:
      text = "boolean";
      break;
    case Kind::integer:
      text = "integer";
      break;
    case Kind::number:
      text = "number";
      break;
    case Kind::text:
      text = "text";
      break;
    case Kind::choice:
      for (const Choice& choice : key.field.choices) text += (text.empty() ? "" : ", ") + quoted(choice.name);
      break;
    case Kind::texts:
      text = "list of texts";
      break;
    case Kind::integers:
      text = "list of integers";
      break;
    case Kind::pair:
      text = "list of two numbers";
      break;
    case Kind::per_group:
      text = "number, or a list with one per parameter group";
      break;
  }
  return key.field.nullable ? text + ", or null" : text;
}

/// Defaults that depend on the optimizer's or scheduler's type: "0.001 (Adagrad 0.01)".
std::string default_text(const Key& key) {
  if (key.about.absent != nullptr) return key.about.absent;
  const auto shown = [](const Key& of) {
    const Value value = of.field.get();
    const auto* list = std::get_if<std::vector<double>>(&value);
    return of.field.kind == Kind::per_group && list != nullptr && list->size() == 1 ? json_text(list->front())
                                                                                    : json_text(value);
  };
  std::string text = shown(key);
  if (!key.path.starts_with("optimizer.params.")) return text;
  for (const TypeName& type : optimizer_types()) {
    const bool takes = key.about.takers == nullptr || holds_word(key.about.takers, type.name);
    if (!type.declared || !takes) continue;
    Config config;
    config.optimizer.type = type.name;
    set_type_defaults(config.optimizer);
    const std::string own = shown(*KeyList::of(config).find(key.path));
    if (own != shown(key)) text += fmt::format("; {} {}", type.name, own);
  }
  return text;
}

/// "Types: Adam, AdamW." and whatever else narrows a key.
std::vector<std::string> remarks(const Key& key) {
  const About& about = key.about;
  std::vector<std::string> out;
  if (about.inert != nullptr) out.push_back(fmt::format("Changes nothing here: {}.", about.inert));
  if (about.cost != nullptr) out.push_back(fmt::format("Cost: {}.", about.cost));
  if (about.stages != nullptr) {
    const std::string_view stages = about.stages;
    out.push_back(fmt::format("Matters at stage {}.", stages == "123" ? "1-3" : stages == "12" ? "1-2" : "3"));
  }
  if (about.takers != nullptr) {
    std::string names = about.takers;
    for (size_t at = names.find(' '); at != std::string::npos; at = names.find(' ', at + 2)) names.replace(at, 1, ", ");
    out.push_back(fmt::format("Types: {}.", names));
  }
  if (about.only_if != nullptr) out.push_back(fmt::format("Matters when {} is true.", about.only_if));
  if (about.automatic != nullptr) out.push_back(fmt::format("\"auto\": {}.", about.automatic));
  if (about.other_names != nullptr) out.push_back(fmt::format("Also named {}.", about.other_names));
  return out;
}

std::string range_text(const Key& key) { return key.about.range.bounded() ? key.about.range.text() : ""; }

std::string cell(std::string text) {
  for (size_t at = text.find('|'); at != std::string::npos; at = text.find('|', at + 2)) text.insert(at, "\\");
  return text;
}

/// The keys directly inside a section as a table; nothing where there are none.
std::string table(const KeyList& keys, const std::string& section) {
  std::string rows;
  for (const std::string& name : keys.names_in(section)) {
    const Key* key = keys.find(section.empty() ? name : section + "." + name);
    if (key == nullptr) continue;
    std::string meaning = key->about.meaning;
    for (const std::string& remark : remarks(*key)) meaning += " " + remark;
    std::string type = type_text(*key);
    if (const std::string range = range_text(*key); !range.empty()) type += ", " + range;
    rows += fmt::format("| `{}` | {} | {} | {} |\n", name, cell(type), cell(default_text(*key)), cell(meaning));
  }
  return rows.empty() ? "" : "\n| Key | Type and range | Default | Meaning |\n| --- | --- | --- | --- |\n" + rows;
}

constexpr const char* kPreface = R"(# The config file

*Made from the declared list of keys by `lockstep config schema --markdown`; do not edit.*

A config is DeepSpeed's `ds_config.json`. Every key is obeyed, or answered with one line saying why it changes nothing,
or refused; none is dropped in silence. `lockstep config check FILE` reports all problems at once,
`lockstep config show FILE` prints the effective config and where each value came from, and
`lockstep config explain KEY` prints what stands here. Some declared capabilities are not yet built; `check` names them
where a file switches them on.

The text is JSON with comments (`//`, `#`, `/* */`) and trailing commas. A whole number may be written `5e8`. Repeated
keys, text without quotes (`True`) and unknown keys are errors; `--lenient` turns unknown keys into warnings. `"auto"` is
taken where the table says so.
)";

std::string explain(const Key& key) {
  std::string out = fmt::format("{}\n  {}\n  type     {}\n", key.path, key.about.meaning, type_text(key));
  if (const std::string range = range_text(key); !range.empty()) out += fmt::format("  range    {}\n", range);
  out += fmt::format("  default  {}\n", default_text(key));
  for (const std::string& remark : remarks(key)) out += fmt::format("  {}\n", remark);
  return out;
}

std::string explain(const KeyList& keys, const Section& section) {
  std::string out = fmt::format("{}\n  {}\n", section.path, section.meaning);
  if (section.opaque) return out + "  Not yet built; a block that switches it on is refused.\n";
  return out + fmt::format("  keys     {}\n", fmt::join(keys.names_in(section.path), ", "));
}

}  // namespace
}  // namespace config

std::string explain_config_key(std::string_view name) {
  using namespace config;
  Config config;
  const KeyList keys = KeyList::of(config);
  if (const Key* key = keys.find(name)) return explain(*key);
  if (const Section* section = keys.find_section(name)) return explain(keys, *section);
  std::string out;
  std::vector<std::string> names;
  const auto matches = [&](const std::string& path) {
    const std::string last = path.substr(path.rfind('.') + 1);
    for (const std::string& each : {path, last}) {
      if (std::ranges::find(names, each) == names.end()) names.push_back(each);
    }
    return last == name ||
           (path.size() > name.size() && path.ends_with(name) && path[path.size() - name.size() - 1] == '.');
  };
  for (const Section& section : keys.sections()) {
    if (matches(section.path)) out += (out.empty() ? "" : "\n") + explain(keys, section);
  }
  for (const Key& key : keys.keys()) {
    const bool other = key.about.other_names != nullptr && holds_word(key.about.other_names, name);
    if (matches(key.path) || other) out += (out.empty() ? "" : "\n") + explain(key);
  }
  if (!out.empty()) return out;
  const std::optional<std::string> close = nearest(name, names);
  throw ConfigError(
      fmt::format("{}: unknown key; {}", name,
                  close ? "write " + quoted(*close) : "legal at the top level: " + listed(keys.names_in(""))));
}

std::string config_reference() {
  using namespace config;
  Config config;
  const KeyList keys = KeyList::of(config);
  std::string out = kPreface;
  out += "\n## Top level\n" + table(keys, "");
  std::string opaque;
  for (const Section& section : keys.sections()) {
    if (section.opaque) {
      opaque += fmt::format("| `{}` | {} |\n", section.path, cell(section.meaning));
      continue;
    }
    const auto depth = static_cast<size_t>(std::ranges::count(section.path, '.')) + 2;
    out += fmt::format("\n{} `{}`\n\n{}\n", std::string(depth, '#'), section.path, section.meaning);
    out += table(keys, section.path);
  }
  out +=
      "\n## Blocks that are known and not built\n\nRefused where they switch something on, answered with a line "
      "otherwise.\n\n| Block | What it is |\n| --- | --- |\n" +
      opaque;
  return out;
}

}  // namespace lockstep
