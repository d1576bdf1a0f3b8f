#pragma once

#include <lockstep/config.h>

#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace lockstep::config {

/// A key's value without its C++ type.
using Value = std::variant<std::nullptr_t, bool, int64_t, double, std::string, std::vector<std::string>,
                           std::vector<double>, std::vector<int64_t>>;

enum class Kind {
  boolean,
  integer,
  number,
  text,
  choice,     ///< One of Field::choices; a Value holds its name.
  texts,      ///< List of texts.
  integers,   ///< List of integers.
  pair,       ///< List of two numbers.
  per_group,  ///< One number, or a list with one per parameter group.
};

/// A name of a choice, and other spellings of it.
struct Choice {
  const char* name;
  const char* others = "";  ///< Separated by spaces.
};

/// One field of a Config, with its C++ type hidden.
struct Field {
  Kind kind;
  bool nullable = false;
  std::span<const Choice> choices{};
  std::function<Value()> get{};
  std::function<void(const Value&)> set{};  ///< Takes what the kind says, or nullptr where nullable.
};

/// Names of an enum's values, in their order.
template <class Enum>
std::span<const Choice> choices();

struct Range {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool low_open = false;  ///< low itself is out.
  bool high_open = false;
  [[nodiscard]] bool holds(double value) const {
    return (low_open ? value > low : value >= low) && (high_open ? value < high : value <= high);
  }
  [[nodiscard]] bool bounded() const { return std::isfinite(low) || std::isfinite(high); }
  /// "greater than 0", "between 0 and 1".
  [[nodiscard]] std::string text() const;
};

inline constexpr Range kPositive{.low = 0, .low_open = true};
inline constexpr Range kAtLeastZero{.low = 0};
inline constexpr Range kAtLeastOne{.low = 1};
inline constexpr Range kFraction{.low = 0, .high = 1};
inline constexpr Range kBelowOne{.low = 0, .high = 1, .high_open = true};

/// What is known of a key beside its type and default.
struct About {
  const char* meaning = "";
  Range range{};
  const char* automatic = nullptr;    ///< How "auto" is resolved; null: "auto" is refused.
  const char* cost = nullptr;         ///< What it costs, where that is not plain.
  const char* inert = nullptr;        ///< Why the key changes nothing here, whatever its value.
  const char* stages = nullptr;       ///< ZeRO stages where it has an effect ("23"); null: all.
  const char* takers = nullptr;       ///< Optimizer or scheduler types that take it; null: all.
  const char* absent = nullptr;       ///< Said in place of the default, "inferred".
  const char* other_names = nullptr;  ///< Other legal names of the same key, separated by spaces.
  const char* only_if = nullptr;      ///< Dotted path of the boolean that must be true for it to matter.
  bool type_names = false;            ///< A type's name: canonical spelling is found by the reader.
};

struct Key {
  std::string path;
  std::string name;  ///< The last word of path.
  About about;
  Field field;
};

struct Section {
  std::string path;
  std::string meaning;
  bool opaque = false;  ///< Known, not read further: kept in Config::blocks.
};

/// All keys of a Config, bound to that object.  Every other part (reading, printing, schema, docs) walks this list.
class KeyList {
 public:
  /// The one declared list.  `config` is borrowed and must outlive the result.
  static KeyList of(Config& config);

  [[nodiscard]] const std::vector<Key>& keys() const { return keys_; }
  [[nodiscard]] const std::vector<Section>& sections() const { return sections_; }
  [[nodiscard]] const Key* find(std::string_view path) const;
  [[nodiscard]] const Section* find_section(std::string_view path) const;
  /// Names of keys and sections directly inside a section ("" is the top level), in declared order.
  [[nodiscard]] std::vector<std::string> names_in(std::string_view section) const;

  // For the declarations.
  void open(const char* name, const char* meaning);
  void close();
  void block(const char* name, const char* meaning);
  void add(const char* name, Field field, About about);
  template <class T>
  void operator()(const char* name, T& field, About about);

 private:
  [[nodiscard]] std::string path_of(std::string_view name) const;
  std::vector<std::string> inside_;
  std::vector<Key> keys_;
  std::vector<Section> sections_;
};

// The declarations, one function per area.
void declare_training(KeyList& list, Config& config);
void declare_optimizer(KeyList& list, OptimizerConfig& config);
void declare_scheduler(KeyList& list, SchedulerConfig& config);
void declare_precision(KeyList& list, Config& config);
void declare_zero(KeyList& list, Config& config);
void declare_execution(KeyList& list, Config& config);
void declare_monitoring(KeyList& list, Config& config);

namespace detail {

template <class T>
struct FieldType;
template <>
struct FieldType<bool> {
  static constexpr Kind kind = Kind::boolean;
};
template <>
struct FieldType<int64_t> {
  static constexpr Kind kind = Kind::integer;
};
template <>
struct FieldType<double> {
  static constexpr Kind kind = Kind::number;
};
template <>
struct FieldType<std::string> {
  static constexpr Kind kind = Kind::text;
};
template <>
struct FieldType<std::vector<std::string>> {
  static constexpr Kind kind = Kind::texts;
};
template <>
struct FieldType<std::vector<int64_t>> {
  static constexpr Kind kind = Kind::integers;
};
template <>
struct FieldType<PerGroup> {
  static constexpr Kind kind = Kind::per_group;
};
template <>
struct FieldType<std::array<double, 2>> {
  static constexpr Kind kind = Kind::pair;
};
template <class E>
requires std::is_enum_v<E>
struct FieldType<E> {
  static constexpr Kind kind = Kind::choice;
};

template <class T>
Value to_value(const T& field) {
  if constexpr (std::is_enum_v<T>) {
    return std::string(choices<T>()[static_cast<size_t>(field)].name);
  } else if constexpr (std::is_same_v<T, std::array<double, 2>>) {
    return std::vector<double>(field.begin(), field.end());
  } else {
    return field;
  }
}

template <class T>
void from_value(const Value& value, T& field) {
  if constexpr (std::is_enum_v<T>) {
    const auto names = choices<T>();
    for (size_t i = 0; i < names.size(); ++i) {
      if (std::get<std::string>(value) == names[i].name) field = static_cast<T>(i);
    }
  } else if constexpr (std::is_same_v<T, std::array<double, 2>>) {
    const auto& list = std::get<std::vector<double>>(value);
    field = {list.at(0), list.at(1)};
  } else {
    field = std::get<T>(value);
  }
}

template <class T>
Field make_field(T& field) {
  Field made{.kind = FieldType<T>::kind};
  if constexpr (std::is_enum_v<T>) made.choices = choices<T>();
  made.get = [&field] { return to_value(field); };
  made.set = [&field](const Value& value) { from_value(value, field); };
  return made;
}

/// An empty list where one is not required is the absent value.
inline Field make_field(PerGroup& field) {
  Field made{.kind = Kind::per_group, .nullable = field.empty()};
  made.get = [&field]() -> Value {
    if (field.empty()) return nullptr;
    return field;
  };
  made.set = [&field](const Value& value) {
    if (std::holds_alternative<std::nullptr_t>(value)) {
      field.clear();
    } else {
      from_value(value, field);
    }
  };
  return made;
}

template <class T>
Field make_field(std::optional<T>& field) {
  Field made{.kind = FieldType<T>::kind, .nullable = true};
  if constexpr (std::is_enum_v<T>) made.choices = choices<T>();
  made.get = [&field]() -> Value {
    if (!field) return nullptr;
    return to_value(*field);
  };
  made.set = [&field](const Value& value) {
    if (std::holds_alternative<std::nullptr_t>(value)) {
      field.reset();
    } else {
      from_value(value, field.emplace());
    }
  };
  return made;
}

}  // namespace detail

template <class T>
void KeyList::operator()(const char* name, T& field, About about) {
  add(name, detail::make_field(field), about);
}

}  // namespace lockstep::config
