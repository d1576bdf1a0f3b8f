#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lockstep::monitor {

/// Rows of a start-up table: a name, its value and, where it is not plain, where the value comes from.
struct TableRow {
  std::string name{};
  std::string value{};
  std::string note{};
};

/// A title, then the rows in aligned columns, each line ended:
///
///     Training
///       model      gpt2-nano       10.8 M parameters
///       world      2 ranks
///
/// Columns are as wide as their widest cell; letters outside ASCII count once each.
std::string format_table(std::string_view title, const std::vector<TableRow>& rows);

}  // namespace lockstep::monitor
