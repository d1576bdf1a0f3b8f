#include <fmt/format.h>

#include <algorithm>

#include "base/units.h"
#include "config/draft.h"

namespace lockstep {
namespace config {

namespace {

struct ValuePrinter {
  std::string operator()(std::nullptr_t) const { return "null"; }
  std::string operator()(bool on) const { return on ? "true" : "false"; }
  std::string operator()(int64_t number) const { return fmt::format("{}", number); }
  std::string operator()(double number) const { return base::shortest(number); }
  std::string operator()(const std::string& text) const { return quoted(text); }
  template <class T>
  std::string operator()(const std::vector<T>& list) const {
    std::string out = "[";
    for (size_t i = 0; i < list.size(); ++i) out += (i > 0 ? ", " : "") + (*this)(list[i]);
    return out + "]";
  }
};

}  // namespace

std::string json_text(const Value& value) { return std::visit(ValuePrinter{}, value); }

namespace {

/// A per-group list of one is written as the number it was.
std::string key_text(const Key& key) {
  const Value value = key.field.get();
  if (key.field.kind == Kind::per_group) {
    const auto* list = std::get_if<std::vector<double>>(&value);
    if (list != nullptr && list->size() == 1) return base::shortest(list->front());
  }
  return json_text(value);
}

/// Writes the effective values, leaving out what the chosen types do not take.
class Printer {
 public:
  explicit Printer(const Config& config) : config_(config), keys_(KeyList::of(config_)) {}

  [[nodiscard]] std::string object(const std::string& section, int depth) const {
    const std::string indent(static_cast<size_t>(depth) * 2, ' ');
    std::string out;
    for (const std::string& name : keys_.names_in(section)) {
      const std::string path = section.empty() ? name : section + "." + name;
      std::string text;
      if (const Key* key = keys_.find(path)) {
        if (!shown(*key)) continue;
        text = key_text(*key);
      } else if (!block_text(*keys_.find_section(path), depth, text)) {
        continue;
      }
      out += fmt::format("{}{}  {}: {}", out.empty() ? "" : ",\n", indent, quoted(name), text);
    }
    return out.empty() ? "{}" : "{\n" + out + "\n" + indent + "}";
  }

  [[nodiscard]] std::string listing(bool all) const {
    Config defaults;
    defaults.optimizer.type = config_.optimizer.type;
    set_type_defaults(defaults.optimizer);
    defaults.scheduler.type = config_.scheduler.type;
    set_type_defaults(defaults.scheduler);
    const KeyList plain = KeyList::of(defaults);
    std::string out;
    for (size_t i = 0; i < keys_.keys().size(); ++i) {
      const Key& key = keys_.keys()[i];
      if (!listed(key)) continue;
      const Origin origin = config_.provenance(key.path);
      const bool as_default =
          origin.source == Origin::Source::defaulted && key.field.get() == plain.keys()[i].field.get();
      if (!all && as_default) continue;
      out += fmt::format("{} = {}", key.path, key_text(key));
      out += fmt::format("{:>{}}# {}\n", "", std::max<int>(2, 64 - static_cast<int>(out.size() - out.rfind('\n') - 1)),
                         origin.text());
    }
    for (const auto& [name, text] : config_.blocks)
      out += fmt::format("{} = {}  # file, changes nothing\n", name, text);
    return out;
  }

 private:
  [[nodiscard]] bool shown(const Key& key) const {
    const std::string& optimizer = config_.optimizer.type;
    const std::string& scheduler = config_.scheduler.type;
    const std::string& type = key.path.starts_with("scheduler.") ? scheduler : optimizer;
    if (key.about.type_names && type.empty()) return false;
    return key.about.takers == nullptr || holds_word(key.about.takers, type);
  }

  /// Blocks whose presence means something are shown only where the file has them.
  [[nodiscard]] bool present(std::string_view section) const {
    if (section == "optimizer") return !config_.optimizer.type.empty();
    if (section == "scheduler") return !config_.scheduler.type.empty();
    if (section != "zero_optimization.zenflow" && section != "zero_optimization.zeropp_loco_param") return true;
    const std::string prefix = std::string(section) + ".";
    const auto first = config_.reading.origins.lower_bound(prefix);
    return first != config_.reading.origins.end() && first->first.starts_with(prefix);
  }

  [[nodiscard]] bool listed(const Key& key) const {
    if (!shown(key)) return false;
    for (size_t dot = key.path.find('.'); dot != std::string::npos; dot = key.path.find('.', dot + 1)) {
      if (!present(std::string_view(key.path).substr(0, dot))) return false;
    }
    return true;
  }

  bool block_text(const Section& section, int depth, std::string& text) const {
    if (!section.opaque) {
      if (!present(section.path)) return false;
      text = object(section.path, depth + 1);
      return true;
    }
    const auto found = config_.blocks.find(section.path);
    if (found == config_.blocks.end()) return false;
    text = found->second;
    return true;
  }

  Config config_;  // A copy: keys refer to it.
  KeyList keys_;
};

}  // namespace
}  // namespace config

std::string Config::to_json_text() const { return config::Printer(*this).object("", 0) + "\n"; }

std::string Config::to_listing(bool all) const { return config::Printer(*this).listing(all); }

}  // namespace lockstep
