#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <string>

namespace lockstep::monitor {

enum class Phase { forward, backward, reduce, step };
inline constexpr size_t kPhases = 4;

/// Milliseconds per phase, in the order of Phase.
using PhaseMilliseconds = std::array<double, kPhases>;

/// "forward", "backward", "reduce", "step".
const char* phase_name(Phase phase);

/// Adds up the time spent in each phase of a step.  Used by one thread.
class PhaseTimers {
 public:
  /// Adds the time from its construction to its end.
  class [[nodiscard]] Scope {
   public:
    explicit Scope(double& total_ms) : total_ms_(total_ms), start_(std::chrono::steady_clock::now()) {}
    ~Scope() {
      total_ms_ += std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start_).count();
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    double& total_ms_;
    const std::chrono::steady_clock::time_point start_;
  };

  /// The scope must not outlive the timers.
  Scope time(Phase phase) { return Scope(totals_[static_cast<size_t>(phase)]); }
  void add(Phase phase, double milliseconds) { totals_[static_cast<size_t>(phase)] += milliseconds; }
  [[nodiscard]] const PhaseMilliseconds& totals() const { return totals_; }
  /// The totals so far; counting starts again from zero.
  PhaseMilliseconds take();

 private:
  PhaseMilliseconds totals_{};
};

/// "forward 12.3 ms, backward 25.1 ms, reduce 1.2 ms, step 3.4 ms".
std::string describe(const PhaseMilliseconds& times);

}  // namespace lockstep::monitor
