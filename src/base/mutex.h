#pragma once

#include <condition_variable>
#include <mutex>

/// Clang's thread-safety analysis, and nothing under other compilers.
#if defined(__clang__)
#define LOCKSTEP_ANNOTATE(x) __attribute__((x))
#else
#define LOCKSTEP_ANNOTATE(x)
#endif
#define LOCKSTEP_GUARDED_BY(mutex) LOCKSTEP_ANNOTATE(guarded_by(mutex))
#define LOCKSTEP_REQUIRES(...) LOCKSTEP_ANNOTATE(requires_capability(__VA_ARGS__))

namespace lockstep::base {

/// std::mutex with annotations, so that clang proves who holds what.
class LOCKSTEP_ANNOTATE(capability("mutex")) Mutex {
 public:
  void lock() LOCKSTEP_ANNOTATE(acquire_capability()) { mutex_.lock(); }
  void unlock() LOCKSTEP_ANNOTATE(release_capability()) { mutex_.unlock(); }

 private:
  std::mutex mutex_;
};

class LOCKSTEP_ANNOTATE(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) LOCKSTEP_ANNOTATE(acquire_capability(mutex)) : mutex_(mutex) { mutex_.lock(); }
  ~MutexLock() LOCKSTEP_ANNOTATE(release_capability()) { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

/// Waits on a Mutex that the caller holds.
using Condition = std::condition_variable_any;

}  // namespace lockstep::base
