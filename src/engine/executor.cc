#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include "engine/parts.h"
#include "lockstep/data.h"
#include "precision/autocast.h"
#include "tensor/seeds.h"

namespace lockstep::engine {

at::Tensor run_forward(Engine::Parts& parts, const at::Tensor& input, const at::Tensor& target, int64_t call) {
  const auto seed_layer = [&parts, call](size_t layer) {
    at::manual_seed(tensor::layer_seed({.seed = parts.seed,
                                        .step = parts.steps,
                                        .micro_batch = parts.micro_batch,
                                        .data_rank = parts.group->rank(),
                                        .layer = static_cast<int64_t>(layer),
                                        .call = call}));
  };
  const bool records = at::GradMode::is_enabled();
  const precision::AutocastScope autocast(parts.autocast_type, input.device().type(),
                                          /*keeps_casts=*/!parts.plan.options.shard.parameters);
  const tensor::HalfProductsScope products(parts.half_products);
  std::vector<at::Tensor> hidden{parts.input_type && input.is_floating_point() ? input.to(*parts.input_type) : input};
  const size_t layers = parts.model.layers.size();
  for (size_t layer = 0; layer < layers; ++layer) {
    seed_layer(layer);
    const TraceSpan span(parts.trace.get(), Trace::Lane::compute, "layer", fmt::format_int(layer).c_str());
    hidden = parts.calls->run(static_cast<int>(layer), /*then_backward=*/false,
                              [&] { return parts.model.layers[layer]->forward(hidden); });
  }
  seed_layer(layers);
  const TraceSpan span(parts.trace.get(), Trace::Lane::compute, "head");
  return parts.calls
      ->run(static_cast<int>(layers), /*then_backward=*/records,
            [&] { return std::vector<at::Tensor>{parts.model.head->loss(hidden.front(), target).to(at::kFloat)}; })
      .front();
}

zero::Reduce reduction_of_backward(const Engine::Parts& parts) {
  const bool last = parts.micro_batch == parts.plan.options.accumulation - 1;
  if (parts.no_sync_scopes > 0) return zero::Reduce::none;
  if (last) return zero::Reduce::last_means;
  return parts.plan.reduces_each_micro_batch() ? zero::Reduce::means : zero::Reduce::none;
}

StepReport run_instructions(Engine::Parts& parts, Engine& engine, const Loader& loader) {
  using Kind = plan::Instruction::Kind;
  Batch batch;
  at::Tensor loss;
  for (const plan::Instruction& instruction : parts.plan.instructions) {
    switch (instruction.kind) {
      case Kind::load:
        batch = loader.at(parts.micro_steps);
        break;
      case Kind::forward:
        loss = engine.forward(batch.input, batch.target);
        break;
      case Kind::backward:
        engine.backward(loss);
        loss.reset();
        if (!engine.is_gradient_accumulation_boundary()) engine.step();
        break;
      case Kind::reduce:
        break;  // Runs within the last backward; the update waits for it.
      case Kind::update:
        engine.step();
        break;
    }
  }
  return *parts.last_report;
}

}  // namespace lockstep::engine
