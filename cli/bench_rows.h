#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace lockstep::cli {

/// A result: an object of flat values in the order they are printed, "name" first.
using BenchRow = nlohmann::ordered_json;

/// `value` with four significant digits: no probe repeats better than that.
double rounded(double value);

/// "name=roof_copy threads=2 pages=huge GBs=31.2", for scripts that read lines.
std::string to_line(const BenchRow& row);

/// One JSON array.
std::string to_json_text(const std::vector<BenchRow>& rows);

/// A header and rows of equal length in aligned columns; text to the left, numbers to the right.
std::string to_columns(const std::vector<std::vector<std::string>>& rows);

}  // namespace lockstep::cli
