// Heavy unit: autograd's own headers.
#include "zero/unit_calls.h"

#include <ATen/SequenceNumber.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>

#include <algorithm>

#include "lockstep/error.h"
#include "zero/operator_observer.h"

namespace lockstep::zero {
namespace {

/// Of an observed layer: none, its operators lease what they take.
const plan::LayerUnits& units_read(const ParameterStore& parameters, int layer) {
  static const plan::LayerUnits none;
  const plan::LayerUnits& units = parameters.units_of_layer(layer);
  return units.observed ? none : units;
}

}  // namespace

/// The calls that hold a lease, of one engine.
struct UnitCalls::Open {
  ParameterStore* parameters = nullptr;  ///< Null after the engine's end.
  std::vector<Call*> calls{};
};

/// One forward of a unit, for as long as autograd may run its backward.
class UnitCalls::Call {
 public:
  Call(std::shared_ptr<Open> open, int layer, uint64_t begin) : open_(std::move(open)), layer_(layer), begin_(begin) {}
  ~Call() { close(); }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  [[nodiscard]] uint64_t begin() const { return begin_; }

  /// Leases units until close().
  void open(std::span<const int> units) {
    open_->parameters->acquire_units(units);
    leased_ = units;
    is_open_ = true;
    open_->calls.push_back(this);
  }
  void close() {
    if (!is_open_) return;
    is_open_ = false;
    std::erase(open_->calls, this);
    if (open_->parameters != nullptr) open_->parameters->release_units(leased_);
  }
  /// Backward reached a node of this call that has the given sequence number.
  void before_backward(uint64_t sequence) {
    const std::vector<Call*> calls = open_->calls;
    for (Call* call : calls)
      if (call != this && call->begin_ >= sequence) call->close();
    if (open_->parameters == nullptr) return;
    if (!is_open_) open(units_read(*open_->parameters, layer_).backward);
    open_->parameters->prefetch_units(units_read(*open_->parameters, layer_ - 1).backward);
  }

 private:
  const std::shared_ptr<Open> open_;
  const int layer_;
  const uint64_t begin_;
  std::span<const int> leased_;
  bool is_open_ = false;
};

class UnitCalls::BeforeBackward final : public torch::autograd::FunctionPreHook {
 public:
  BeforeBackward(std::shared_ptr<Call> call, uint64_t sequence) : call_(std::move(call)), sequence_(sequence) {}
  torch::autograd::variable_list operator()(const torch::autograd::variable_list& gradients) override {
    if (at::GradMode::is_enabled())
      throw ConfigError(
          "backward with create_graph: parameters that each rank holds a slice of take part in first "
          "derivatives only; use zero_optimization.stage 2");
    call_->before_backward(sequence_);
    return gradients;
  }

 private:
  const std::shared_ptr<Call> call_;
  const uint64_t sequence_;
};

UnitCalls::UnitCalls(ParameterStore& parameters, int64_t max_live_numel)
    : parameters_(parameters), open_(std::make_shared<Open>()) {
  open_->parameters = &parameters;
  if (parameters.sharded() && parameters.has_observed_layers())
    observer_ = std::make_unique<OperatorObserver>(parameters, max_live_numel);
}

UnitCalls::~UnitCalls() {
  abandon_backward();
  open_->parameters = nullptr;
}

std::vector<at::Tensor> UnitCalls::run(int layer, bool then_backward,
                                       const std::function<std::vector<at::Tensor>()>& forward) {
  if (!parameters_.sharded()) return forward();
  const auto call = std::make_shared<Call>(open_, layer, at::sequence_number::peek());
  call->open(units_read(parameters_, layer).forward);
  if (!then_backward) parameters_.prefetch_units(units_read(parameters_, layer + 1).forward);
  std::vector<at::Tensor> outputs;
  observe([&] { outputs = forward(); });
  if (observer_ && !at::GradMode::is_enabled()) observer_->release_all();
  bool recorded = false;
  std::vector<torch::autograd::Node*> nodes;
  for (const at::Tensor& output : outputs) {
    const auto& node = output.grad_fn();
    // A node older than the call is another unit's, whose output went through unchanged.
    if (node == nullptr || node->sequence_nr() < call->begin() || std::ranges::count(nodes, node.get()) > 0) continue;
    nodes.push_back(node.get());
    node->add_pre_hook(std::make_unique<BeforeBackward>(call, node->sequence_nr()));
    recorded = true;
  }
  if (!(recorded && then_backward)) call->close();
  return outputs;
}

void UnitCalls::run_backward(const std::function<void()>& backward) {
  try {
    observe(backward);
  } catch (...) {
    abandon_backward();
    throw;
  }
  finish_backward();
}

void UnitCalls::observe(const std::function<void()>& body) {
  if (observer_)
    observer_->run(body);
  else
    body();
}

void UnitCalls::abandon_backward() noexcept {
  try {
    finish_backward();
  } catch (const std::exception&) {
    // A lost peer: whoever waits next is told.
  }
}

void UnitCalls::finish_backward() {
  const std::vector<Call*> calls = open_->calls;
  for (Call* call : calls) call->close();
  if (observer_) observer_->release_all();
  parameters_.drop_prefetched();
}

}  // namespace lockstep::zero
