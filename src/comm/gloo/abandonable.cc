#include "comm/gloo/abandonable.h"

#include <exception>
#include <memory>
#include <thread>

#include "base/mutex.h"

namespace lockstep::comm {
namespace {

struct Outcome {
  base::Mutex mutex;
  base::Condition changed;
  bool done LOCKSTEP_GUARDED_BY(mutex) = false;
  std::exception_ptr error LOCKSTEP_GUARDED_BY(mutex);
};

}  // namespace

bool run_abandonable(std::chrono::milliseconds limit, std::function<void()> body) {
  const auto outcome = std::make_shared<Outcome>();  // shared with the thread, which may outlive this call
  std::thread([outcome, body = std::move(body)]() mutable {
    std::exception_ptr error;
    try {
      body();
    } catch (...) {
      error = std::current_exception();
    }
    body = nullptr;  // what it owns goes before the caller learns that it is done
    const base::MutexLock lock(outcome->mutex);
    outcome->done = true;
    outcome->error = std::move(error);
    outcome->changed.notify_all();
  }).detach();

  const auto end = std::chrono::steady_clock::now() + limit;
  const base::MutexLock lock(outcome->mutex);
  while (!outcome->done)
    if (outcome->changed.wait_until(outcome->mutex, end) == std::cv_status::timeout && !outcome->done) return false;
  if (outcome->error) std::rethrow_exception(std::exchange(outcome->error, nullptr));
  return true;
}

}  // namespace lockstep::comm
