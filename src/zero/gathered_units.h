#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "lockstep/communicator.h"
#include "plan/plan.h"
#include "zero/unit_storage.h"

namespace lockstep::zero {

struct GatherLimits {
  int64_t prefetch_numel = 0;  ///< Elements under way ahead of their use.
  int64_t max_live_numel = 0;  ///< Elements whole at once, beyond which nothing is fetched ahead.
};

/// A model of which each rank holds its slice of every unit; whole units are leased.  A unit is gathered when its first
/// lease begins and given back when its last one ends.  Every rank leases in the same order.  Used by one thread.
class GatheredUnits {
 public:
  /// `group` and `plan` must outlive it.
  GatheredUnits(Communicator& group, const plan::Plan& plan, GatherLimits limits);

  /// The storage that unit's parameters view.
  [[nodiscard]] const UnitStorage& storage(int unit) const { return units_[static_cast<size_t>(unit)].storage; }
  [[nodiscard]] int64_t numel(int unit) const { return plan_.layouts[static_cast<size_t>(unit)].numel; }
  /// This rank's slice: [slice_numel].
  [[nodiscard]] const at::Tensor& slice(int unit) const { return units_[static_cast<size_t>(unit)].slice; }

  /// Memory for the unit's first values, zeros; no transfer.  end_initialization keeps the own slice.
  void start_initialization(int unit);
  void end_initialization(int unit);

  /// Begins a lease: the unit is whole when it returns.  Throws CommError.
  void acquire(int unit);
  void release(int unit);
  /// Starts gathering a unit that is about to be leased, within the limits.
  void prefetch(int unit);
  /// Gives back what was fetched ahead and not leased.
  void drop_prefetched();
  /// The most elements that were whole, or under way, at once so far.
  [[nodiscard]] int64_t peak_numel() const { return peak_numel_; }
  /// For an edit inside a lease: every rank's own slice takes the whole's values.
  void keep_edit(int unit);

 private:
  struct Unit {
    UnitStorage storage;
    at::Tensor slice{};
    at::Tensor whole{};  ///< Defined while gathered or under way.
    int leases = 0;
    bool under_way = false;
    Handle gathering{};
  };

  [[nodiscard]] at::Tensor own_part(int unit) const;
  void start_gather(int unit);
  void finish_gather(int unit);
  void give_back(int unit);

  Communicator& group_;
  const plan::Plan& plan_;
  const GatherLimits limits_;
  std::deque<Unit> units_;
  int64_t live_numel_ = 0;
  int64_t peak_numel_ = 0;
  int64_t ahead_numel_ = 0;
};

}  // namespace lockstep::zero
