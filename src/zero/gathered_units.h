#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "lockstep/communicator.h"
#include "lockstep/trace.h"
#include "plan/plan.h"
#include "zero/unit_storage.h"

namespace lockstep::zero {

struct GatherOptions {
  int64_t prefetch_numel = 0;  ///< Elements under way ahead of their use.
  int64_t max_live_numel = 0;  ///< Elements whole at once, beyond which nothing is fetched ahead.
  Trace* trace = nullptr;      ///< Takes gathers, and waits for them.
};

/// A model of which each rank holds its slice of every unit; whole units are leased.  The units of one of Plan::gathers
/// are gathered together when the first lease on one of them begins, and given back when the last one ends, unless
/// another was announced.  Every rank leases in the same order.  Used by one thread.
class GatheredUnits {
 public:
  /// `group` and `plan` must outlive it.
  GatheredUnits(Communicator& group, const plan::Plan& plan, GatherOptions options);

  /// The storage that unit's parameters view.
  [[nodiscard]] const UnitStorage& storage(int unit) const { return units_[static_cast<size_t>(unit)].storage; }
  [[nodiscard]] int64_t numel(int unit) const { return plan_.layouts[static_cast<size_t>(unit)].numel; }
  /// This rank's slice, in the weights' type: [slice_numel].
  [[nodiscard]] const at::Tensor& slice(int unit) const { return units_[static_cast<size_t>(unit)].slice; }

  /// Memory for the unit's first values, zeros; no transfer.  end_initialization keeps the own slice.
  void start_initialization(int unit);
  void end_initialization(int unit);

  /// Begins a lease: the unit is whole when it returns.  Throws CommError.
  void acquire(int unit);
  void release(int unit);
  /// Announces the next lease: starts gathering the unit, within the limits, or keeps it where it is whole.
  void prefetch(int unit);
  /// Gives back what was announced and not leased.
  void drop_prefetched();
  /// The most elements that were whole, or under way, at once so far.
  [[nodiscard]] int64_t peak_numel() const { return peak_numel_; }
  /// For an edit inside a lease: every rank's own slice takes the whole's values.
  void keep_edit(int unit);

 private:
  struct Unit {
    UnitStorage storage;
    at::Tensor slice{};
    at::Tensor whole{};  ///< Defined while gathered, or under way by itself.
    int gather = -1;     ///< Index into gathers_; none for a unit that trains nothing.
  };
  struct Gather {
    const plan::GatherGroup& planned;
    int64_t numel = 0;  ///< Of its units, whole.
    enum class State { absent, under_way, whole } state = State::absent;
    int leases = 0;
    bool announced = false;  ///< Stays whole after its last lease.
    at::Tensor buffer{};     ///< Of several units under way: [world_size, GatherGroup::slice_numel].
    Handle transfer{};
    int64_t begin = 0;  ///< Trace::now() at its start.
  };

  /// Null for a unit that trains nothing.
  [[nodiscard]] Gather* gather_of(int unit);
  [[nodiscard]] at::Tensor part_of(int unit, int owner) const;
  void start(Gather& gather);
  void finish(Gather& gather);
  void give_back(Gather& gather);

  Communicator& group_;
  const plan::Plan& plan_;
  const at::ScalarType type_;
  const GatherOptions options_;
  std::deque<Unit> units_;
  std::deque<Gather> gathers_;
  int64_t live_numel_ = 0;
  int64_t peak_numel_ = 0;
  int64_t ahead_numel_ = 0;
};

}  // namespace lockstep::zero
