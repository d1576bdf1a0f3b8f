#pragma once

#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <unordered_map>
#include <vector>

namespace c10 {
struct StorageImpl;
}
namespace at {
struct RecordFunction;
}

namespace lockstep::zero {

class ParameterStore;

/// Makes units whole for a module that knows nothing of them: when an operator that takes one of their parameters
/// starts, in forward and in backward.  They are given back oldest first where the limit is reached, and by
/// release_all().  The order of the gathers is kept, and the next time what follows is fetched ahead.  Every rank runs
/// the same operators on parameters in the same order.  Used by one thread, which also runs backward.
class OperatorObserver {
 public:
  /// `parameters` must outlive it.  max_live_numel: elements whole at once; a unit that runs may exceed it.
  OperatorObserver(ParameterStore& parameters, int64_t max_live_numel);

  /// Runs `body` with this thread's operators observed.  Throws what it throws; CommError where a unit could not be
  /// gathered; ConfigError where an operator writes a parameter.
  void run(const std::function<void()>& body);
  /// Gives back every unit.
  void release_all();

 private:
  struct OpenOperator;
  struct Callbacks;

  /// The units that an operator's inputs live in; each once.
  [[nodiscard]] std::vector<int> units_of(const at::RecordFunction& function) const;
  /// Throws ConfigError where the operator writes a parameter.
  void refuse_writes(const at::RecordFunction& function) const;
  void start(OpenOperator& open);
  void make_whole(int unit);
  void end(const OpenOperator& open);

  ParameterStore& parameters_;
  const int64_t max_live_numel_;
  std::unordered_map<const c10::StorageImpl*, int> unit_of_storage_;
  std::vector<int> users_;  ///< By unit: operators under way that take its parameters.
  std::deque<int> live_;    ///< Oldest first.
  int64_t live_numel_ = 0;
  std::vector<int> order_;   ///< Of gathers since the last release_all().
  std::vector<int> before_;  ///< The same before it: what is expected.
  std::exception_ptr failure_;
};

}  // namespace lockstep::zero
