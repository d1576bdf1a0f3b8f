#include "monitor/memory.h"

#include <charconv>
#include <fstream>
#include <string>
#include <string_view>

namespace lockstep::monitor {
namespace {

/// A line such as "VmHWM:     1234 kB".
int64_t status_bytes(std::string_view field) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with(field)) continue;
    const size_t first = line.find_first_of("0123456789");
    if (first == std::string::npos) return 0;
    int64_t kibibytes = 0;
    std::from_chars(line.data() + first, line.data() + line.size(), kibibytes);
    return kibibytes * 1024;
  }
  return 0;
}

}  // namespace

// Not getrusage: its maximum is inherited through exec, so a rank would show its launcher's.
int64_t peak_rss_bytes() { return status_bytes("VmHWM:"); }
int64_t rss_bytes() { return status_bytes("VmRSS:"); }

}  // namespace lockstep::monitor
