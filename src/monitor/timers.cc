#include "monitor/timers.h"

#include <fmt/format.h>

#include <utility>

namespace lockstep::monitor {

const char* phase_name(Phase phase) {
  static constexpr std::array<const char*, kPhases> kNames{"forward", "backward", "reduce", "step"};
  return kNames[static_cast<size_t>(phase)];
}

PhaseMilliseconds PhaseTimers::take() { return std::exchange(totals_, {}); }

std::string describe(const PhaseMilliseconds& times) {
  std::string text;
  for (size_t phase = 0; phase < kPhases; ++phase)
    text += fmt::format("{}{} {:.1f} ms", phase == 0 ? "" : ", ", phase_name(static_cast<Phase>(phase)), times[phase]);
  return text;
}

}  // namespace lockstep::monitor
