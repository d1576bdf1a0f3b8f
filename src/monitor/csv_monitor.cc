#include "monitor/csv_monitor.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/units.h"
#include "monitor/scalars.h"

namespace lockstep::monitor {
namespace {

std::string path_of(const std::string& folder, std::string name) {
  std::ranges::replace(name, '/', '_');
  return fmt::format("{}/{}.csv", folder, name);
}

std::string header_of(const std::string& name) { return "step," + name.substr(name.rfind('/') + 1); }

/// The shortest text, of the float where the value is one; "nan", "inf" and "-inf", which pandas reads.
std::string text_of(double value) {
  if (!std::isfinite(value)) return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
  const auto rounded = static_cast<float>(value);
  return static_cast<double>(rounded) == value ? base::shortest(rounded) : base::shortest(value);
}

std::optional<int64_t> samples_of(std::string_view row) {
  int64_t samples = 0;
  const auto [end, error] = std::from_chars(row.data(), row.data() + row.size(), samples);
  if (error != std::errc() || end == row.data() + row.size() || *end != ',') return std::nullopt;
  return samples;
}

}  // namespace

std::string CsvMonitor::first_file(const std::string& folder) { return path_of(folder, scalar_names().front()); }

CsvMonitor::CsvMonitor(const std::string& folder) {
  for (const std::string& name : scalar_names()) {
    AppendedFile& file = files_.try_emplace(name, path_of(folder, name)).first->second;
    const std::string header = header_of(name) + "\n";
    const std::string text = file.read();
    if (text.size() >= header.size() || !header.starts_with(text)) continue;
    file.cut(0);  // A run was killed inside its first line.
    file.append(header);
  }
}

void CsvMonitor::cut_back_to(int64_t samples) {
  for (auto& [name, file] : files_) {
    const std::string header = header_of(name);
    file.cut_lines(
        samples, [&](std::string_view line) { return line == header ? std::optional<int64_t>(0) : samples_of(line); },
        "is no row of the CSV monitor; give another csv_monitor.job_name, or remove the file");
  }
}

void CsvMonitor::append(const StepRecord& record) {
  for (const Scalar& scalar : scalars(record))
    files_.at(scalar.name).append(fmt::format("{},{}\n", record.samples, text_of(scalar.value)));
}

}  // namespace lockstep::monitor
