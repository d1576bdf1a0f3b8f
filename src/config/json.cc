#include "config/json.h"

#include <fmt/format.h>

#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <optional>

namespace lockstep::config {
namespace {

constexpr int kDepthLimit = 64;
constexpr size_t kFaultLimit = 200;

/// Length of the UTF-8 character that starts at text[at], or 0 where the bytes are not UTF-8.
size_t character_length(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
  const auto follows = [&](size_t i) { return (byte(i) & 0xC0U) == 0x80U; };
  const unsigned first = byte(at);
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return follows(at + 1) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    const bool overlong = first == 0xE0 && byte(at + 1) < 0xA0;
    const bool surrogate = first == 0xED && byte(at + 1) > 0x9F;
    return follows(at + 1) && follows(at + 2) && !overlong && !surrogate ? 3 : 0;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    const bool overlong = first == 0xF0 && byte(at + 1) < 0x90;
    const bool beyond = first == 0xF4 && byte(at + 1) > 0x8F;
    return follows(at + 1) && follows(at + 2) && follows(at + 3) && !overlong && !beyond ? 4 : 0;
  }
  return 0;
}

void append_utf8(std::string& out, unsigned code) {
  const auto put = [&](unsigned byte) { out.push_back(static_cast<char>(byte)); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xC0 | code >> 6);
    put(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    put(0xE0 | code >> 12);
    put(0x80 | (code >> 6 & 0x3F));
    put(0x80 | (code & 0x3F));
  } else {
    put(0xF0 | code >> 18);
    put(0x80 | (code >> 12 & 0x3F));
    put(0x80 | (code >> 6 & 0x3F));
    put(0x80 | (code & 0x3F));
  }
}

/// Thrown inside the reader where the structure is lost; the fault is already recorded.
struct Lost {};

class JsonReader {
 public:
  JsonReader(std::string_view text, std::vector<Fault>& faults) : text_(text), faults_(faults) {}

  Node read() {
    Node root;
    try {
      if (text_.substr(0, 3) == "\xEF\xBB\xBF") at_ = 3;
      check_encoding();
      skip_space();
      if (done()) {
        fault({}, "file is empty; write an object in braces: {\"train_batch_size\": 8}");
        return root;
      }
      if (peek() != '{') {
        const Position start = place_;
        if (peek() == '"' || std::isalpha(static_cast<unsigned char>(peek())) != 0) {
          fault_at(start, "expected an object; put the keys in braces: { ... }");
          return root;
        }
        root = value(0);
        if (root.kind != Node::Kind::broken) fault_at(start, "expected an object; put the keys in braces: { ... }");
        root.kind = Node::Kind::broken;
        return root;
      }
      root = value(0);
      skip_space();
      if (!done()) fault(place_, "text after the closing brace; remove it, or the brace before it");
    } catch (const Lost&) {
    }
    return root;
  }

 private:
  [[nodiscard]] bool done() const { return at_ >= text_.size(); }
  [[nodiscard]] char peek(size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }

  void advance() {
    const char c = text_[at_];
    if (c == '\n') {
      ++place_.line;
      place_.column = 0;
    }
    ++at_;
    // A character's later bytes do not move the column.
    if (c == '\n' || done() || (static_cast<unsigned char>(peek()) & 0xC0U) != 0x80U) ++place_.column;
  }

  void fault_at(Position at, std::string text) {
    if (faults_.size() < kFaultLimit) faults_.push_back({at, path(), std::move(text)});
  }
  void fault(Position at, std::string text) { fault_at(at, std::move(text)); }
  [[noreturn]] void lose(Position at, std::string text) {
    fault_at(at, std::move(text));
    throw Lost{};
  }

  [[nodiscard]] std::string path() const {
    std::string joined;
    for (const std::string& part : path_) joined += (joined.empty() || part.front() == '[' ? "" : ".") + part;
    return joined;
  }

  void check_encoding() {
    Position place = place_;
    for (size_t i = at_; i < text_.size();) {
      const size_t length = character_length(text_, i);
      if (length == 0) {
        lose(place,
             fmt::format("byte 0x{:02X} is not UTF-8; save the file as UTF-8", static_cast<unsigned char>(text_[i])));
      }
      if (text_[i] == '\0') lose(place, "a zero byte; save the file as UTF-8 text");
      ++place.column;
      if (text_[i] == '\n') place = {place.line + 1, 1};
      i += length;
    }
  }

  void skip_space() {
    while (!done()) {
      const char c = peek();
      if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
        advance();
      } else if (c == '#' || (c == '/' && peek(1) == '/')) {
        while (!done() && peek() != '\n') advance();
      } else if (c == '/' && peek(1) == '*') {
        const Position start = place_;
        advance();
        advance();
        while (!done() && !(peek() == '*' && peek(1) == '/')) advance();
        if (done()) lose(start, "this comment never ends; close it with */");
        advance();
        advance();
      } else {
        return;
      }
    }
  }

  Node value(int depth) {
    Node node;
    node.at = place_;
    if (depth > kDepthLimit)
      lose(place_, fmt::format("nested deeper than {} levels; no key goes that deep", kDepthLimit));
    switch (peek()) {
      case '{':
        return object(depth);
      case '[':
        return array(depth);
      case '"': {
        const size_t before = faults_.size();
        node.text = string();
        if (faults_.size() == before) node.kind = Node::Kind::string;
        return node;
      }
      case '\'': {
        const Position start = place_;
        advance();
        while (!done() && peek() != '\'' && peek() != '\n') advance();
        if (peek() != '\'') lose(start, "text in single quotes that does not end; write \"text\"");
        advance();
        fault(start, "text in single quotes; write it in double quotes");
        return node;
      }
      case ',':
      case '}':
      case ']':
        fault(place_, "a value is missing here; write one, or remove the key");
        return node;
      default:
        return word();
    }
  }

  Node object(int depth) {
    Node node;
    node.kind = Node::Kind::object;
    node.at = place_;
    advance();
    while (true) {
      skip_space();
      if (done()) lose(node.at, "this object is not closed; add }");
      if (peek() == '}') break;
      Node::Member member;
      member.at = place_;
      member.key = key();
      path_.push_back(member.key.empty() ? "\"\"" : member.key);
      skip_space();
      if (peek() != ':') lose(place_, fmt::format("expected ':' after the key {}", quoted(member.key)));
      advance();
      skip_space();
      if (done()) lose(place_, "the file ends where a value was expected; write the value and close the object with }");
      member.value = value(depth + 1);
      const Node::Member* first = find(node, member.key);
      if (first != nullptr) {
        fault(member.at, fmt::format("duplicate key, first given at line {}, column {}; keep one", first->at.line,
                                     first->at.column));
      }
      path_.pop_back();
      if (first == nullptr) node.members.push_back(std::move(member));
      if (!separator('}', "object", node.at)) break;
    }
    advance();
    return node;
  }

  Node array(int depth) {
    Node node;
    node.kind = Node::Kind::array;
    node.at = place_;
    advance();
    while (true) {
      skip_space();
      if (done()) lose(node.at, "this list is not closed; add ]");
      if (peek() == ']') break;
      path_.push_back(fmt::format("[{}]", node.items.size()));
      node.items.push_back(value(depth + 1));
      path_.pop_back();
      if (!separator(']', "list", node.at)) break;
    }
    advance();
    return node;
  }

  /// After an element: eats a comma.  False where the closing bracket stands.
  bool separator(char close, const char* what, Position start) {
    skip_space();
    if (peek() == close) return false;
    if (peek() == ',') {
      const Position comma = place_;
      advance();
      skip_space();
      if (peek() == ',') lose(place_, fmt::format("two commas in a row, the first at line {}; remove one", comma.line));
      return true;
    }
    if (done()) lose(start, fmt::format("this {} is not closed; add {}", what, close));
    if (peek() == '"') {
      fault(place_, "a comma is missing before this; write one after the value before");
      return true;
    }
    lose(place_, fmt::format("expected ',' or '{}' here; found {}", close, found()));
  }

  [[nodiscard]] std::string found() const {
    const size_t length = std::max<size_t>(character_length(text_, at_), 1);
    return quoted(text_.substr(at_, length));
  }

  std::string key() {
    if (peek() == '"') return string();
    const Position start = place_;
    std::string name;
    if (peek() == '\'') {
      advance();
      while (!done() && peek() != '\'' && peek() != '\n') take(name);
      if (peek() != '\'') lose(start, "a key in single quotes that does not end; write \"key\"");
      advance();
      fault(start, fmt::format("a key in single quotes; write {}", quoted(name)));
      return name;
    }
    while (std::isalnum(static_cast<unsigned char>(peek())) != 0 || peek() == '_' || peek() == '.') take(name);
    if (name.empty()) lose(start, fmt::format("expected a key in double quotes; found {}", found()));
    fault(start, fmt::format("a key without quotes; write {}", quoted(name)));
    return name;
  }

  void take(std::string& into) {
    into.push_back(peek());
    advance();
  }

  std::string string() {
    const Position start = place_;
    std::string out;
    advance();
    while (true) {
      if (done() || peek() == '\n') lose(start, "this text does not end on its line; close it with a double quote");
      const char c = peek();
      if (c == '"') break;
      if (static_cast<unsigned char>(c) < 0x20) {
        fault(place_, fmt::format("control character 0x{:02X} in a text; write \\u{:04x}", c, c));
        advance();
      } else if (c == '\\') {
        escape(out);
      } else {
        take(out);
      }
    }
    advance();
    return out;
  }

  void escape(std::string& out) {
    const Position start = place_;
    advance();
    if (done()) return;
    const char c = peek();
    static constexpr std::string_view kNames = "\"\\/bfnrt";
    static constexpr std::string_view kMeans = "\"\\/\b\f\n\r\t";
    if (const size_t index = kNames.find(c); index != std::string_view::npos) {
      out.push_back(kMeans[index]);
      advance();
      return;
    }
    if (c != 'u') {
      fault(start, "unknown escape; a backslash itself is written \\\\");
      return;
    }
    advance();
    std::optional<unsigned> code = hex();
    if (code && *code >= 0xD800 && *code < 0xDC00 && peek() == '\\' && peek(1) == 'u') {
      advance();
      advance();
      const std::optional<unsigned> low = hex();
      code = low && *low >= 0xDC00 && *low < 0xE000
                 ? std::optional(0x10000 + ((*code - 0xD800) << 10) + (*low - 0xDC00))
                 : std::nullopt;
    }
    if (!code || (*code >= 0xD800 && *code < 0xE000)) {
      fault(start, "an escape that is no character; write \\u and four hexadecimal digits");
      return;
    }
    append_utf8(out, *code);
  }

  std::optional<unsigned> hex() {
    unsigned code = 0;
    for (int i = 0; i < 4; ++i) {
      if (std::isxdigit(static_cast<unsigned char>(peek())) == 0) return std::nullopt;
      const char digit[2] = {peek(), '\0'};
      code = code * 16 + static_cast<unsigned>(std::strtoul(digit, nullptr, 16));
      advance();
    }
    return code;
  }

  /// true, false, null, a number, or something that looks like one of these and is not.
  Node word() {
    Node node;
    node.at = place_;
    std::string text;
    while (!done()) {
      const char c = peek();
      if (std::isalnum(static_cast<unsigned char>(c)) == 0 &&
          std::string_view("+-._").find(c) == std::string_view::npos && static_cast<unsigned char>(c) < 0x80) {
        break;
      }
      take(text);
    }
    if (text.empty()) lose(node.at, fmt::format("expected a value; found {}", found()));
    if (text == "true" || text == "false") {
      node.kind = Node::Kind::boolean;
      node.boolean = text == "true";
    } else if (text == "null") {
      node.kind = Node::Kind::null;
    } else {
      number(node, text);
    }
    return node;
  }

  void number(Node& node, const std::string& text) {
    if (const std::string hint = not_a_number(text); !hint.empty()) {
      fault(node.at, fmt::format("{} is not JSON; {}", text, hint));
      return;
    }
    node.kind = Node::Kind::number;
    node.text = text;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), node.number);
    if (error == std::errc::result_out_of_range || !std::isfinite(node.number)) {
      // from_chars leaves the value alone for both too large and too small; strtod tells them apart.
      node.number = std::strtod(text.c_str(), nullptr);
      if (!std::isfinite(node.number)) {
        node.kind = Node::Kind::broken;
        fault(node.at, fmt::format("{} is too large for a number; the largest is about 1.8e308", text));
        return;
      }
    }
    const auto whole = std::from_chars(text.data(), text.data() + text.size(), node.integer);
    node.is_integer = whole.ec == std::errc() && whole.ptr == text.data() + text.size();
    const bool plain_digits = text.find_first_of(".eE") == std::string::npos;
    // Above 2^53 a double no longer says which integer was written.
    if (!node.is_integer && !plain_digits && std::floor(node.number) == node.number &&
        std::abs(node.number) <= 9007199254740992.0) {
      node.integer = static_cast<int64_t>(node.number);
      node.is_integer = true;
    }
  }

  /// Empty where text is a JSON number; else what to write.
  static std::string not_a_number(const std::string& text) {
    std::string lower;
    for (const char c : text) lower.push_back(static_cast<char>(std::tolower(static_cast<unsigned char>(c))));
    if (lower == "true" || lower == "yes" || lower == "on") return "write true";
    if (lower == "false" || lower == "no" || lower == "off") return "write false";
    if (lower == "none" || lower == "null" || lower == "nil" || lower == "undefined") return "write null";
    std::string_view bare = lower;
    if (bare.front() == '-' || bare.front() == '+') bare.remove_prefix(1);
    if (bare == "nan" || bare == "inf" || bare == "infinity") return "write a finite number";
    const bool digit = !bare.empty() && std::isdigit(static_cast<unsigned char>(bare.front())) != 0;
    if (bare.size() > 1 && bare[0] == '0' && bare[1] == 'x') return "write the number in decimal digits";
    if (!digit && !(bare.size() > 1 && bare[0] == '.' && std::isdigit(static_cast<unsigned char>(bare[1])) != 0)) {
      return "write text in double quotes: " + quoted(text);
    }
    if (lower.front() == '+') return fmt::format("write it without the plus sign: {}", text.substr(1));
    const std::string sign = lower.front() == '-' ? "-" : "";
    if (bare.front() == '.') return fmt::format("write {}0{}", sign, bare);
    if (bare.size() > 1 && bare[0] == '0' && std::isdigit(static_cast<unsigned char>(bare[1])) != 0) {
      const size_t rest = std::min(bare.find_first_not_of('0'), bare.size() - 1);
      return fmt::format("write it without leading zeros: {}{}", sign, bare.substr(rest));
    }
    size_t i = 0;
    const auto digits = [&] {
      const size_t start = i;
      while (i < bare.size() && std::isdigit(static_cast<unsigned char>(bare[i])) != 0) ++i;
      return i > start;
    };
    digits();
    if (i < bare.size() && bare[i] == '.') {
      ++i;
      if (!digits()) return fmt::format("write a digit after the point: {}{}0", sign, bare.substr(0, i));
    }
    if (i < bare.size() && bare[i] == 'e') {
      ++i;
      if (i < bare.size() && (bare[i] == '+' || bare[i] == '-')) ++i;
      if (!digits()) return "write digits after the e, as in 5e8";
    }
    return i == bare.size() ? "" : "write a number such as 5, 0.5 or 5e8, or text in double quotes";
  }

  static const Node::Member* find(const Node& object, const std::string& key) {
    for (const Node::Member& member : object.members) {
      if (member.key == key) return &member;
    }
    return nullptr;
  }

  std::string_view text_;
  std::vector<Fault>& faults_;
  size_t at_ = 0;
  Position place_{};
  std::vector<std::string> path_;
};

}  // namespace

Node parse_json(std::string_view text, std::vector<Fault>& faults) { return JsonReader(text, faults).read(); }

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\t':
        out += "\\t";
        break;
      case '\r':
        out += "\\r";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
        } else {
          out.push_back(c);
        }
    }
  }
  return out + "\"";
}

std::string compact_json(const Node& node) {
  switch (node.kind) {
    case Node::Kind::null:
    case Node::Kind::broken:
      return "null";
    case Node::Kind::boolean:
      return node.boolean ? "true" : "false";
    case Node::Kind::number:
      return node.text;
    case Node::Kind::string:
      return quoted(node.text);
    case Node::Kind::array: {
      std::string out = "[";
      for (const Node& item : node.items) out += (out.size() > 1 ? ", " : "") + compact_json(item);
      return out + "]";
    }
    case Node::Kind::object: {
      std::string out = "{";
      for (const Node::Member& member : node.members) {
        out += (out.size() > 1 ? ", " : "") + quoted(member.key) + ": " + compact_json(member.value);
      }
      return out + "}";
    }
  }
  return "null";
}

}  // namespace lockstep::config
