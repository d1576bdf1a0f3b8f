#include "zero/gathered_units.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "base/check.h"
#include "comm/reduction.h"
#include "tensor/elements.h"

namespace lockstep::zero {
namespace {

constexpr uint32_t kUnitTag = 0x10000;  // Plus the first unit's index; the reducer's tags are below.

}  // namespace

GatheredUnits::GatheredUnits(Communicator& group, const plan::Plan& plan, GatherOptions options)
    : group_(group), plan_(plan), type_(tensor::scalar_type(plan.options.weight_type)), options_(options) {
  for (size_t unit = 0; unit < plan.layouts.size(); ++unit) {
    units_.push_back({.storage = UnitStorage(plan.layouts[unit].numel, type_, plan.table.units[unit])});
    units_.back().slice = at::empty({plan.layouts[unit].slice_numel}, type_);
  }
  for (const plan::GatherGroup& planned : plan.gathers) {
    for (const int unit : planned.units) units_[static_cast<size_t>(unit)].gather = static_cast<int>(gathers_.size());
    gathers_.push_back({.planned = planned, .numel = planned.slice_numel * group.size()});
  }
}

GatheredUnits::Gather* GatheredUnits::gather_of(int unit) {
  const int gather = units_[static_cast<size_t>(unit)].gather;
  return gather < 0 ? nullptr : &gathers_[static_cast<size_t>(gather)];
}

at::Tensor GatheredUnits::part_of(int unit, int owner) const {
  const Unit& it = units_[static_cast<size_t>(unit)];
  return it.whole.narrow(0, owner * it.slice.numel(), it.slice.numel());
}

void GatheredUnits::start_initialization(int unit) {
  Unit& it = units_[static_cast<size_t>(unit)];
  it.whole = at::zeros({plan_.layouts[static_cast<size_t>(unit)].numel}, type_);
  it.storage.fill(it.whole);
}

void GatheredUnits::end_initialization(int unit) {
  keep_edit(unit);
  Unit& it = units_[static_cast<size_t>(unit)];
  it.whole.reset();
  it.storage.release();
}

void GatheredUnits::acquire(int unit) {
  Gather* gather = gather_of(unit);
  if (gather == nullptr) return;
  if (gather->state == Gather::State::absent) start(*gather);
  if (gather->state == Gather::State::under_way) finish(*gather);
  ++gather->leases;
  gather->announced = false;
}

void GatheredUnits::release(int unit) {
  Gather* gather = gather_of(unit);
  if (gather == nullptr) return;
  LOCKSTEP_CHECK(gather->leases > 0);
  if (--gather->leases == 0 && !gather->announced) give_back(*gather);
}

void GatheredUnits::prefetch(int unit) {
  Gather* gather = gather_of(unit);
  if (gather == nullptr || gather->state == Gather::State::under_way) return;
  if (gather->state == Gather::State::whole) {
    gather->announced = true;
    return;
  }
  if (ahead_numel_ + gather->numel > options_.prefetch_numel || live_numel_ + gather->numel > options_.max_live_numel)
    return;
  start(*gather);
}

void GatheredUnits::drop_prefetched() {
  for (Gather& gather : gathers_) {
    if (gather.state == Gather::State::under_way) finish(gather);
    gather.announced = false;
    if (gather.state == Gather::State::whole && gather.leases == 0) give_back(gather);
  }
}

void GatheredUnits::keep_edit(int unit) {
  if (gather_of(unit) == nullptr) return;
  Unit& it = units_[static_cast<size_t>(unit)];
  LOCKSTEP_CHECK(it.whole.defined());
  it.slice.copy_(part_of(unit, group_.rank()));
}

void GatheredUnits::start(Gather& gather) {
  gather.state = Gather::State::under_way;
  gather.begin = options_.trace != nullptr ? Trace::now() : 0;
  live_numel_ += gather.numel;
  peak_numel_ = std::max(peak_numel_, live_numel_);
  ahead_numel_ += gather.numel;
  const int first = gather.planned.units.front();
  const Message message{.tag = kUnitTag + static_cast<uint32_t>(first),
                        .what = plan_.table.units[static_cast<size_t>(first)]};
  if (gather.planned.units.size() == 1) {
    Unit& it = units_[static_cast<size_t>(first)];
    it.whole = at::empty({gather.numel}, type_);
    gather.transfer = comm::start_all_gather(group_, it.slice, it.whole, message);
    return;
  }
  gather.buffer = at::empty({group_.size(), gather.planned.slice_numel}, type_);
  const at::Tensor own = gather.buffer.select(0, group_.rank());
  int64_t at = 0;
  for (const int unit : gather.planned.units) {
    const at::Tensor& slice = units_[static_cast<size_t>(unit)].slice;
    own.narrow(0, at, slice.numel()).copy_(slice);
    at += slice.numel();
  }
  gather.transfer = comm::start_all_gather(group_, own, gather.buffer.view({-1}), message);
}

void GatheredUnits::finish(Gather& gather) {
  const std::string& name = plan_.table.units[static_cast<size_t>(gather.planned.units.front())];
  {
    const TraceSpan span(options_.trace, Trace::Lane::compute, "wait for", name);
    gather.transfer.wait();
  }
  if (options_.trace != nullptr) options_.trace->add(Trace::Lane::gather, name, gather.begin, Trace::now());
  gather.state = Gather::State::whole;
  ahead_numel_ -= gather.numel;
  int64_t at = 0;
  for (const int unit : gather.planned.units) {
    Unit& it = units_[static_cast<size_t>(unit)];
    if (gather.buffer.defined()) {
      it.whole = at::empty({numel(unit)}, type_);
      for (int owner = 0; owner < group_.size(); ++owner)
        part_of(unit, owner).copy_(gather.buffer.select(0, owner).narrow(0, at, it.slice.numel()));
      at += it.slice.numel();
    }
    it.storage.fill(it.whole);
  }
  gather.buffer.reset();
}

void GatheredUnits::give_back(Gather& gather) {
  gather.state = Gather::State::absent;
  live_numel_ -= gather.numel;
  for (const int unit : gather.planned.units) {
    Unit& it = units_[static_cast<size_t>(unit)];
    it.whole.reset();
    it.storage.release();
  }
}

}  // namespace lockstep::zero
