// Heavy unit: the dispatcher's hooks.
#include "zero/operator_observer.h"

#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>
#include <ATen/record_function.h>
#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "lockstep/error.h"
#include "zero/parameter_store.h"

namespace lockstep::zero {
namespace {

thread_local OperatorObserver* observer = nullptr;  // Of run() on this thread; they nest.

}  // namespace

struct OperatorObserver::OpenOperator final : at::ObserverContext {
  OpenOperator(OperatorObserver& by, std::vector<int> which) : observed_by(by), units(std::move(which)) {}
  OperatorObserver& observed_by;
  const std::vector<int> units;
  size_t used = 0;  ///< So many of the units are counted as used by it.
};

struct OperatorObserver::Callbacks {
  static std::unique_ptr<at::ObserverContext> on_start(const at::RecordFunction& function) {
    if (observer == nullptr) return nullptr;
    std::vector<int> units = observer->units_of(function);
    if (units.empty()) return nullptr;
    const at::RecordFunctionGuard own_operators_are_not_seen(false);
    auto open = std::make_unique<OpenOperator>(*observer, std::move(units));
    // LibTorch swallows what a callback throws: run() tells it.
    try {
      observer->refuse_writes(function);
      observer->start(*open);
    } catch (...) {
      if (!observer->failure_) observer->failure_ = std::current_exception();
    }
    return open;
  }
  static void on_end(const at::RecordFunction& /*function*/, at::ObserverContext* context) {
    if (context == nullptr) return;
    const auto* open = static_cast<const OpenOperator*>(context);
    open->observed_by.end(*open);
  }
};

OperatorObserver::OperatorObserver(ParameterStore& parameters, int64_t max_live_numel)
    : parameters_(parameters), max_live_numel_(max_live_numel), users_(parameters.unit_names().size()) {
  for (size_t unit = 0; unit < users_.size(); ++unit)
    unit_of_storage_.emplace(parameters.unit_storage(static_cast<int>(unit)).address(), static_cast<int>(unit));
}

void OperatorObserver::run(const std::function<void()>& body) {
  class Observing {
   public:
    explicit Observing(OperatorObserver* by) : outer_(observer) {
      observer = by;
      handle_ = at::addThreadLocalCallback(at::RecordFunctionCallback(&Callbacks::on_start, &Callbacks::on_end)
                                               .needsInputs(true)
                                               .scopes({at::RecordScope::FUNCTION}));
    }
    ~Observing() {
      at::removeCallback(handle_);
      observer = outer_;
    }

   private:
    OperatorObserver* const outer_;
    at::CallbackHandle handle_ = 0;
  };
  failure_ = nullptr;
  try {
    const Observing observing(this);
    body();
  } catch (...) {
    // The kernel's complaint about released memory is a consequence.
    if (!failure_) throw;
  }
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

void OperatorObserver::release_all() {
  for (const int unit : live_) parameters_.release_unit(unit);
  live_.clear();
  live_numel_ = 0;
  before_ = std::exchange(order_, {});
}

std::vector<int> OperatorObserver::units_of(const at::RecordFunction& function) const {
  std::vector<int> units;
  const auto look = [&](const at::Tensor& tensor) {
    if (!tensor.defined() || !tensor.has_storage()) return;
    const auto found = unit_of_storage_.find(tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl());
    if (found != unit_of_storage_.end() && std::ranges::find(units, found->second) == units.end())
      units.push_back(found->second);
  };
  for (const c10::IValue& input : function.inputs()) {
    if (input.isTensor()) look(input.toTensor());
    if (!input.isList()) continue;
    for (const c10::IValue& each : input.toListRef())
      if (each.isTensor()) look(each.toTensor());
  }
  return units;
}

void OperatorObserver::refuse_writes(const at::RecordFunction& function) const {
  const auto schema = function.operator_schema();
  const auto inputs = function.inputs();
  for (size_t at = 0; schema && at < std::min(inputs.size(), schema->arguments().size()); ++at) {
    const c10::AliasInfo* alias = schema->arguments()[at].alias_info();
    if (alias == nullptr || !alias->isWrite()) continue;
    const auto refuse_own = [&](const at::Tensor& tensor) {
      if (!tensor.defined() || !tensor.has_storage()) return;
      const auto found = unit_of_storage_.find(tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl());
      if (found == unit_of_storage_.end()) return;
      throw ConfigError(fmt::format(
          "{} writes a parameter of {}: each rank holds its slice only, and the write would be lost; change "
          "parameters between steps, through a gathered scope, or use zero_optimization.stage 2",
          function.name(), parameters_.unit_names()[static_cast<size_t>(found->second)]));
    };
    if (inputs[at].isTensor()) refuse_own(inputs[at].toTensor());
    if (inputs[at].isTensorList())
      for (const at::Tensor& each : inputs[at].toTensorVector()) refuse_own(each);
  }
}

void OperatorObserver::start(OpenOperator& open) {
  for (const int unit : open.units) {
    ++users_[static_cast<size_t>(unit)];
    ++open.used;
  }
  for (const int unit : open.units) make_whole(unit);
}

void OperatorObserver::make_whole(int unit) {
  if (std::ranges::find(live_, unit) != live_.end()) return;
  const int64_t numel = parameters_.unit_numel(unit);
  for (auto it = live_.begin(); it != live_.end() && live_numel_ + numel > max_live_numel_;) {
    if (users_[static_cast<size_t>(*it)] > 0) {
      ++it;
      continue;
    }
    live_numel_ -= parameters_.unit_numel(*it);
    parameters_.release_unit(*it);
    it = live_.erase(it);
  }
  parameters_.acquire_unit(unit);
  live_.push_back(unit);
  live_numel_ += numel;
  order_.push_back(unit);
  const size_t next = order_.size();
  if (next < before_.size() && before_[next - 1] == unit) parameters_.prefetch_unit(before_[next]);
}

void OperatorObserver::end(const OpenOperator& open) {
  for (size_t at = 0; at < open.used; ++at) --users_[static_cast<size_t>(open.units[at])];
}

}  // namespace lockstep::zero
