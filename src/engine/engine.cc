#include "lockstep/engine.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <fmt/format.h>

#include <numeric>

#include "engine/parts.h"
#include "lockstep/data.h"
#include "lockstep/error.h"

namespace lockstep {

Engine::Engine(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Engine::Engine(Engine&&) noexcept = default;
Engine& Engine::operator=(Engine&&) noexcept = default;
Engine::~Engine() = default;

at::Tensor Engine::forward(const at::Tensor& input, const at::Tensor& target) {
  const Parts::PhaseScope phase(*parts_, monitor::Phase::forward);
  at::Tensor loss = engine::run_forward(*parts_, input, target, parts_->forwards++);
  parts_->step_tokens += input.numel();
  return loss;
}

void Engine::backward(const at::Tensor& loss) {
  const Parts::PhaseScope phase(*parts_, monitor::Phase::backward);
  parts_->loss_sum += loss.item<double>();
  parts_->reducer->start_backward(engine::reduction_of_backward(*parts_));
  ++parts_->backwards;
  const double seed = parts_->scaler.scale() / static_cast<double>(parts_->plan.options.accumulation);
  const tensor::HalfProductsScope products(parts_->half_products);
  try {
    parts_->calls->run_backward([&] { loss.backward(at::full({}, seed, loss.options().requires_grad(false))); });
  } catch (const CommError&) {
    throw;
  } catch (...) {
    // The reduction ends as on the other ranks, which wait for it; then all of them skip the step.
    parts_->backward_failed = true;
    parts_->reducer->finish_backward();
    throw;
  }
  parts_->reducer->finish_backward();
}

Engine::NoSync Engine::no_sync() { return NoSync(parts_->no_sync_scopes); }
Engine::NoSync::NoSync(int& scopes) : scopes_(scopes) { ++scopes_; }
Engine::NoSync::~NoSync() { --scopes_; }

void Engine::step() {
  if (parts_->backwards == 0) throw ConfigError("step() was called without a backward before it");
  if (is_gradient_accumulation_boundary() && parts_->reducer->holds_own_sums())
    throw ConfigError(
        "the step's last backward ran within no_sync(): ranks have not exchanged their gradients; run "
        "the last backward of the last micro-batch outside of it");
  parts_->forwards = 0;
  parts_->backwards = 0;
  ++parts_->micro_steps;
  if (is_gradient_accumulation_boundary())
    engine::run_step(*parts_);
  else
    ++parts_->micro_batch;
}

bool Engine::is_gradient_accumulation_boundary() const {
  return parts_->micro_batch == parts_->plan.options.accumulation - 1;
}

StepReport Engine::train_batch(const Loader& loader) { return engine::run_instructions(*parts_, *this, loader); }

double Engine::eval_batch(const Batch& batch) {
  const at::NoGradGuard no_grad;
  const engine::EvaluationMode evaluation(parts_->model);
  return engine::run_forward(*parts_, batch.input, batch.target, 0).item<double>();
}

double Engine::evaluate(const Loader& loader) {
  double weighted_loss = 0;
  for (int64_t round = 0; round < loader.evaluation_rounds(); ++round) {
    const EvaluationBatch part = loader.evaluation_batch(round);
    weighted_loss += static_cast<double>(part.samples) * eval_batch(part.batch);
  }
  std::vector<double> of_ranks(static_cast<size_t>(parts_->group->size()));
  parts_->group->all_gather_records(std::as_bytes(std::span(&weighted_loss, 1)),
                                    std::as_writable_bytes(std::span(of_ranks)), "the evaluation's loss");
  return std::accumulate(of_ranks.begin(), of_ranks.end(), 0.0) / static_cast<double>(loader.samples());
}

const std::optional<StepReport>& Engine::report() const { return parts_->last_report; }
int64_t Engine::global_steps() const { return parts_->steps; }
int64_t Engine::applied_steps() const { return parts_->applied_steps; }
double Engine::loss_scale() const { return parts_->scaler.scale(); }
int64_t Engine::skipped_steps() const { return parts_->steps - parts_->applied_steps; }
int64_t Engine::global_samples() const { return parts_->steps * parts_->config.train_batch_size; }
int64_t Engine::micro_steps() const { return parts_->micro_steps; }
double Engine::lr() const {
  return parts_->schedule->at(parts_->applied_steps - 1, parts_->optimizer->groups().front().lr).lr;
}
const Config& Engine::config() const { return parts_->config; }
std::string Engine::plan_text() const { return plan::to_text(parts_->plan); }
int64_t Engine::parameter_count() const { return parts_->plan.table.numel(); }
void Engine::describe_data(const DataDescription& data) { parts_->data = data; }

}  // namespace lockstep
