#include "monitor/table.h"

#include <algorithm>

namespace lockstep::monitor {
namespace {

/// Letters of UTF-8 text.
size_t width(std::string_view text) {
  return static_cast<size_t>(std::ranges::count_if(text, [](char byte) { return (byte & 0xc0) != 0x80; }));
}

void append_cell(std::string& line, std::string_view text, size_t column_width) {
  line += text;
  line.append(column_width - width(text) + 2, ' ');
}

}  // namespace

std::string format_table(std::string_view title, const std::vector<TableRow>& rows) {
  size_t name_width = 0;
  size_t value_width = 0;
  for (const TableRow& row : rows) {
    name_width = std::max(name_width, width(row.name));
    if (!row.note.empty()) value_width = std::max(value_width, width(row.value));
  }
  std::string text(title);
  if (!title.empty()) text += "\n";
  for (const TableRow& row : rows) {
    std::string line = "  ";
    append_cell(line, row.name, name_width);
    if (row.note.empty()) {
      line += row.value;
    } else {
      append_cell(line, row.value, value_width);
      line += row.note;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace lockstep::monitor
