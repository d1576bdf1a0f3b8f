#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "config/json.h"
#include "config/keys.h"

namespace lockstep::config {

struct Problem {
  Position at{};
  std::string text{};  ///< Whole message.
};

/// A config while it is read, with all that was found on the way.  Lives inside Config::from_text.
class Draft {
 public:
  Draft(std::string name, const ParseOptions& options) : keys(KeyList::of(config)), options(options) {
    config.reading.file = std::move(name);
  }
  Draft(const Draft&) = delete;  // keys refer to config.
  Draft& operator=(const Draft&) = delete;

  Config config{};
  const KeyList keys;
  const ParseOptions options;

  /// The file gives the key (as a value or as "auto"), or the block.
  [[nodiscard]] bool given(std::string_view path) const { return places_.contains(path); }
  /// The file gives a value for the key: not "auto", not null, not refused.
  [[nodiscard]] bool valued(std::string_view path) const { return given(path) && !set_aside_.contains(path); }
  /// The key's value was refused, so nothing may be concluded from it.
  [[nodiscard]] bool failed(std::string_view path) const { return failed_.contains(path); }
  /// Where the key stands; else its block; else the text's start.
  [[nodiscard]] Position place(std::string_view path) const;

  /// The file has this very name, old or new; known for a whole block before its values are read.
  [[nodiscard]] bool written(std::string_view path) const { return written_.contains(path); }
  void mark_written(const std::string& path) { written_.insert(path); }
  void mark_given(const std::string& path, Position at) { places_.emplace(path, at); }
  void set_aside(const std::string& path) { set_aside_.insert(path); }
  void mark_failed(const std::string& path) {
    failed_.insert(path);
    set_aside_.insert(path);
  }

  /// "FILE: line L, column C: PATH: text".
  [[nodiscard]] std::string message(Position at, std::string_view path, std::string_view text) const;
  void problem(Position at, std::string_view path, std::string_view text) {
    problems.push_back({at, message(at, path, text)});
  }
  void problem(std::string_view path, std::string_view text) { problem(place(path), path, text); }
  void warning(std::string_view path, std::string_view text) {
    config.reading.warnings.push_back(message(place(path), path, text));
  }
  void notice(std::string_view path, std::string_view text) {
    config.reading.notices.push_back(message(place(path), path, text));
  }
  void origin(const std::string& path, Origin::Source source, std::string detail);

  std::vector<Problem> problems{};

 private:
  std::map<std::string, Position, std::less<>> places_;
  std::set<std::string, std::less<>> written_;
  std::set<std::string, std::less<>> set_aside_;
  std::set<std::string, std::less<>> failed_;
};

// The passes, in this order.
void read_members(Draft& draft, const Node& object, const std::string& section);
void resolve_automatic(Draft& draft);
void resolve_batch(Draft& draft);
void check_rules(Draft& draft);
void check_capabilities(Draft& draft);
void note_effects(Draft& draft);

/// Reads a key that has an old or an indirect form.  False where the member is none.
bool read_legacy(Draft& draft, const std::string& section, const Node::Member& member);
/// Reads one value into a declared key.
void read_value(Draft& draft, const Key& key, const std::string& path, const Node& node);

/// A value as JSON text, numbers shortest.
std::string json_text(const Value& value);

/// Whether a space-separated list holds a word.
bool holds_word(const char* list, std::string_view word);

/// Types that optimizer.type and scheduler.type may name.
struct TypeName {
  const char* name;
  bool any_case;  ///< Matched in any letter case, as DeepSpeed does with its own.
  bool declared;  ///< Its parameters are declared here.
};
std::span<const TypeName> optimizer_types();
std::span<const TypeName> scheduler_types();
/// Fills in the defaults that differ from the union's.
void set_type_defaults(OptimizerConfig& config);
void set_type_defaults(SchedulerConfig& config);
/// The canonical spelling, or empty.
std::string canonical_type(std::span<const TypeName> types, std::string_view written);

}  // namespace lockstep::config
