#pragma once

#include <functional>
#include <vector>

namespace lockstep::cli {

/// The processors that this process may run on.
std::vector<int> allowed_cpus();

/// Binds the calling thread to one of them, counted around.
void pin_thread(int index);

/// Runs body(thread) on `threads` pinned threads, `repeats` times, all starting together each time, and returns the
/// shortest time from the first start to the last end, in seconds.  before(thread), if any, runs once, untimed.
/// Throws what a body threw, once all have ended.
struct TimedThreads {
  int threads = 1;
  int repeats = 1;
  std::function<void(int thread)> before{};
};
double best_seconds(const TimedThreads& how, const std::function<void(int thread)>& body);

}  // namespace lockstep::cli
