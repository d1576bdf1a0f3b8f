#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/communicator.h"
#include "lockstep/config.h"
#include "lockstep/engine.h"
#include "lockstep/trace.h"
#include "lr/schedule.h"
#include "monitor/timers.h"
#include "optim/optimizer.h"
#include "plan/plan.h"
#include "precision/loss_scaler.h"
#include "precision/non_finite_policy.h"
#include "tensor/half_products.h"
#include "zero/gradient_reducer.h"
#include "zero/parameter_store.h"
#include "zero/sharded_optimizer.h"
#include "zero/unit_calls.h"

namespace lockstep {

/// What an engine is made of.  Built by engine/build.cc; the loop's own state stands last.
struct Engine::Parts {
  // Constant after construction.
  Config config{};
  Log log{};
  std::shared_ptr<Trace> trace{};  ///< Null: none.
  uint64_t seed = 0;
  double gradient_scale = 1;                      ///< Of a mean over ranks: their number, where gradients are summed.
  std::optional<at::ScalarType> input_type{};     ///< To which floating inputs are cast.
  std::optional<at::ScalarType> autocast_type{};  ///< Of forward; none: every operator takes its inputs as they are.
  LayerStack model{};
  std::shared_ptr<Communicator> group{};
  plan::Plan plan{};
  std::unique_ptr<optim::Optimizer> rule{};
  std::unique_ptr<lr::Schedule> schedule{};
  std::unique_ptr<zero::ParameterStore> parameters{};
  std::unique_ptr<zero::UnitCalls> calls{};
  std::unique_ptr<zero::ShardedOptimizer> optimizer{};
  std::unique_ptr<zero::GradientReducer> reducer{};

  // State of training, all of it in checkpoints.
  std::optional<tensor::HalfProducts> half_products{};  ///< None without 16-bit products.
  DataDescription data{};
  int64_t steps = 0;
  int64_t applied_steps = 0;
  int64_t micro_steps = 0;
  int64_t tokens = 0;
  precision::LossScaler scaler;
  precision::NonFinitePolicy non_finite;

  // State of the step under way.
  int64_t micro_batch = 0;  ///< Within the step.
  int64_t forwards = 0;     ///< Of the micro-batch so far.
  int64_t backwards = 0;    ///< Of the micro-batch so far.
  bool backward_failed = false;
  int no_sync_scopes = 0;  ///< That are open.
  double loss_sum = 0;
  int64_t step_tokens = 0;
  monitor::PhaseTimers timers{};
  std::optional<StepReport> last_report{};

  /// Times a phase of the step, and puts it on the time line.
  class [[nodiscard]] PhaseScope {
   public:
    PhaseScope(Parts& parts, monitor::Phase phase)
        : timing_(parts.timers.time(phase)),
          span_(parts.trace.get(), Trace::Lane::compute, monitor::phase_name(phase)) {}

   private:
    const monitor::PhaseTimers::Scope timing_;
    const TraceSpan span_;
  };
};

namespace engine {

/// Runs the model on one micro-batch; layers draw from generators set by (seed, step, micro-batch, rank, layer, call).
/// call: how many forwards the micro-batch had before.
at::Tensor run_forward(Engine::Parts& parts, const at::Tensor& input, const at::Tensor& target, int64_t call);

/// What the gradients of the backward that comes next become.
zero::Reduce reduction_of_backward(const Engine::Parts& parts);

/// The executor: runs the plan's instruction list once, with micro-batches from `loader`.
StepReport run_instructions(Engine::Parts& parts, Engine& engine, const Loader& loader);

/// The update instruction: reduce, check, clip, update, gather, schedule, report.
StepReport run_step(Engine::Parts& parts);

/// Multiplies 16-bit floats as rank 0's `here` says, on all ranks.  Collective.
void agree_on_half_products(Engine::Parts& parts, tensor::HalfProducts here);

/// The plan that initialize() makes, without building anything.  Throws ConfigError.
plan::Plan plan_for(const LayerStack& model, const Config& config, int world_size);

/// Switches the model's dropout off while it lives.
class EvaluationMode {
 public:
  explicit EvaluationMode(const LayerStack& model) : training_(model.training), before_(*training_) {
    *training_ = false;
  }
  ~EvaluationMode() { *training_ = before_; }
  EvaluationMode(const EvaluationMode&) = delete;
  EvaluationMode& operator=(const EvaluationMode&) = delete;

 private:
  const std::shared_ptr<bool> training_;
  const bool before_;
};

}  // namespace engine
}  // namespace lockstep
