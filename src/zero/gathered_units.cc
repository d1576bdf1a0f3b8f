#include "zero/gathered_units.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "base/check.h"
#include "comm/reduction.h"

namespace lockstep::zero {
namespace {

constexpr uint32_t kUnitTag = 0x10000;  // Plus the unit's index; the reducer's tags are below.

}  // namespace

GatheredUnits::GatheredUnits(Communicator& group, const plan::Plan& plan, GatherLimits limits)
    : group_(group), plan_(plan), limits_(limits) {
  for (size_t unit = 0; unit < plan.layouts.size(); ++unit) {
    units_.push_back({.storage = UnitStorage(plan.layouts[unit].numel, plan.table.units[unit])});
    units_.back().slice = at::empty({plan.layouts[unit].slice_numel}, at::kFloat);
  }
}

at::Tensor GatheredUnits::own_part(int unit) const {
  const Unit& it = units_[static_cast<size_t>(unit)];
  return it.whole.narrow(0, group_.rank() * it.slice.numel(), it.slice.numel());
}

void GatheredUnits::start_initialization(int unit) {
  Unit& it = units_[static_cast<size_t>(unit)];
  it.whole = at::zeros({plan_.layouts[static_cast<size_t>(unit)].numel}, at::kFloat);
  it.storage.fill(it.whole);
}

void GatheredUnits::end_initialization(int unit) {
  keep_edit(unit);
  Unit& it = units_[static_cast<size_t>(unit)];
  it.whole.reset();
  it.storage.release();
}

void GatheredUnits::acquire(int unit) {
  Unit& it = units_[static_cast<size_t>(unit)];
  if (it.leases == 0) {
    if (!it.under_way) start_gather(unit);
    finish_gather(unit);
  }
  ++it.leases;
}

void GatheredUnits::release(int unit) {
  Unit& it = units_[static_cast<size_t>(unit)];
  LOCKSTEP_CHECK(it.leases > 0);
  if (--it.leases == 0) give_back(unit);
}

void GatheredUnits::prefetch(int unit) {
  const Unit& it = units_[static_cast<size_t>(unit)];
  const int64_t numel = plan_.layouts[static_cast<size_t>(unit)].numel;
  if (it.leases > 0 || it.under_way || numel == 0) return;
  if (ahead_numel_ + numel > limits_.prefetch_numel || live_numel_ + numel > limits_.max_live_numel) return;
  start_gather(unit);
}

void GatheredUnits::drop_prefetched() {
  for (size_t unit = 0; unit < units_.size(); ++unit) {
    if (!units_[unit].under_way) continue;
    finish_gather(static_cast<int>(unit));
    give_back(static_cast<int>(unit));
  }
}

void GatheredUnits::keep_edit(int unit) {
  Unit& it = units_[static_cast<size_t>(unit)];
  LOCKSTEP_CHECK(it.whole.defined());
  it.slice.copy_(own_part(unit));
}

void GatheredUnits::start_gather(int unit) {
  Unit& it = units_[static_cast<size_t>(unit)];
  const int64_t numel = plan_.layouts[static_cast<size_t>(unit)].numel;
  it.whole = at::empty({numel}, at::kFloat);
  it.under_way = true;
  live_numel_ += numel;
  peak_numel_ = std::max(peak_numel_, live_numel_);
  ahead_numel_ += numel;
  it.gathering = comm::start_all_gather(
      group_, it.slice, it.whole,
      {.tag = kUnitTag + static_cast<uint32_t>(unit), .what = plan_.table.units[static_cast<size_t>(unit)]});
}

void GatheredUnits::finish_gather(int unit) {
  Unit& it = units_[static_cast<size_t>(unit)];
  it.gathering.wait();
  it.under_way = false;
  ahead_numel_ -= it.whole.numel();
  it.storage.fill(it.whole);
}

void GatheredUnits::give_back(int unit) {
  Unit& it = units_[static_cast<size_t>(unit)];
  live_numel_ -= it.whole.numel();
  it.whole.reset();
  it.storage.release();
}

}  // namespace lockstep::zero
