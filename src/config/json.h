#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::config {

/// A place in a text: lines and columns count from 1, columns in characters (not bytes).
struct Position {
  int line = 1;
  int column = 1;
  auto operator<=>(const Position&) const = default;
};

/// A JSON value that remembers where it stood.
struct Node {
  enum class Kind { null, boolean, number, string, array, object, broken };
  struct Member;

  Kind kind = Kind::broken;  ///< broken: a problem was reported for it; readers skip it.
  Position at{};
  bool boolean = false;
  double number = 0;
  int64_t integer = 0;          ///< The number as an integer where is_integer.
  bool is_integer = false;      ///< "5", "2.0" and "5e8" are; "1e30" and "0.5" are not.
  std::string text{};           ///< A string's value, or a number's spelling.
  std::vector<Node> items{};    ///< Of an array.
  std::vector<Member> members;  ///< Of an object, in the file's order, without repeated keys.
};

struct Node::Member {
  std::string key{};
  Position at{};
  Node value{};
};

/// One problem of a text.
struct Fault {
  Position at{};
  std::string path{};  ///< Dotted path of the value it stands in; empty at the root.
  std::string text{};  ///< "problem; fix".
};

/// Reads strict JSON with comments (//, #, /* */) and trailing commas.  Appends every fault it can find: what is
/// clearly one value (True, NaN, +5, 'text') is reported and skipped; where the structure is lost, reading ends.
Node parse_json(std::string_view text, std::vector<Fault>& faults);

/// A string as a JSON literal, quotes included.
std::string quoted(std::string_view text);

/// The node as compact JSON text.
std::string compact_json(const Node& node);

}  // namespace lockstep::config
