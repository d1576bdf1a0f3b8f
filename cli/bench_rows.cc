#include "bench_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>

namespace lockstep::cli {

double rounded(double value) { return std::strtod(fmt::format("{:.4g}", value).c_str(), nullptr); }

std::string to_line(const BenchRow& row) {
  std::string line;
  for (const auto& [key, value] : row.items())
    line += fmt::format("{}{}={}", line.empty() ? "" : " ", key,
                        value.is_string() ? value.get<std::string>() : value.dump());
  return line;
}

std::string to_json_text(const std::vector<BenchRow>& rows) {
  return BenchRow(rows).dump(2, ' ', false, BenchRow::error_handler_t::replace) + "\n";
}

std::string to_columns(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  const auto is_number = [](const std::string& cell) {
    return !cell.empty() && cell.find_first_not_of("0123456789.-") == std::string::npos;
  };
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const bool right = is_number(row[i]) || (&row == &rows.front() && rows.size() > 1 && is_number(rows[1][i]));
      line += right ? fmt::format("  {:>{}}", row[i], widths[i]) : fmt::format("  {:<{}}", row[i], widths[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace lockstep::cli
