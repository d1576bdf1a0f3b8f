#include "bench_timing.h"

#include <sched.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <exception>
#include <limits>
#include <thread>

namespace lockstep::cli {

std::vector<int> allowed_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cpus;
  if (::sched_getaffinity(0, sizeof set, &set) == 0)
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
      if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  return cpus;
}

void pin_thread(int index) {
  const std::vector<int> cpus = allowed_cpus();
  if (cpus.empty()) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpus[static_cast<size_t>(index) % cpus.size()], &set);
  (void)::sched_setaffinity(0, sizeof set, &set);  // Refused: the probe runs unpinned, which can only be slower.
}

double best_seconds(const TimedThreads& how, const std::function<void(int thread)>& body) {
  using Clock = std::chrono::steady_clock;
  struct Lane {
    std::vector<Clock::time_point> starts{};
    std::vector<Clock::time_point> ends{};
    std::exception_ptr error{};
  };
  std::vector<Lane> lanes(static_cast<size_t>(how.threads));
  std::barrier together(how.threads);
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < how.threads; ++t)
      threads.emplace_back([&, t] {
        Lane& lane = lanes[static_cast<size_t>(t)];
        // A thread that failed still comes to every barrier, so that the others do not wait for it.
        const auto guard = [&lane](const auto& work) {
          if (lane.error) return;
          try {
            work();
          } catch (...) {
            lane.error = std::current_exception();
          }
        };
        pin_thread(t);
        guard([&] {
          if (how.before) how.before(t);
        });
        for (int i = 0; i < how.repeats; ++i) {
          together.arrive_and_wait();
          lane.starts.push_back(Clock::now());
          guard([&] { body(t); });
          lane.ends.push_back(Clock::now());
        }
      });
  }
  for (const Lane& lane : lanes)
    if (lane.error) std::rethrow_exception(lane.error);
  double best = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < static_cast<size_t>(how.repeats); ++i) {
    Clock::time_point start = Clock::time_point::max();
    Clock::time_point end = Clock::time_point::min();
    for (const Lane& lane : lanes) {
      start = std::min(start, lane.starts[i]);
      end = std::max(end, lane.ends[i]);
    }
    best = std::min(best, std::chrono::duration<double>(end - start).count());
  }
  return best;
}

}  // namespace lockstep::cli
