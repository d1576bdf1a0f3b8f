// What of an engine goes into a checkpoint, and back.
#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/files.h"
#include "checkpoint/reader.h"
#include "checkpoint/together.h"
#include "checkpoint/writer.h"
#include "engine/parts.h"
#include "kernels/simd.h"
#include "lockstep/error.h"
#include "lockstep/version.h"
#include "model/weights.h"

namespace lockstep {
namespace {

using checkpoint::Piece;
using checkpoint::TrainingState;

/// Calls body(state, piece) for every run of elements that this rank owns or, where `all`, updates: the weight, with an
/// empty state, then each optimizer state by name.  The pieces' tensors are views of the engine's storage.
template <class Body>
void for_each_piece(const Engine::Parts& parts, bool all, const Body& body) {
  const auto& names = parts.optimizer->state_names();
  for (const plan::Segment& segment : parts.plan.segments) {
    const bool owned = segment.owner == parts.group->rank();
    if (!owned && !(all && parts.plan.updates_everything())) continue;
    const plan::Parameter& parameter = parts.plan.table.parameters[static_cast<size_t>(segment.parameter)];
    const auto piece_of = [&](const at::Tensor& values) {
      return Piece{
          .parameter = parameter.name, .shape = parameter.shape, .offset = segment.parameter_begin, .values = values};
    };
    body(std::string(), piece_of(parts.parameters->values(segment)));
    for (size_t state = 0; state < names.size(); ++state)
      body(names[state], piece_of(parts.optimizer->state(segment, static_cast<int>(state))));
  }
  for (size_t index = 0; index < parts.plan.table.parameters.size(); ++index) {
    const plan::Parameter& parameter = parts.plan.table.parameters[index];
    const bool owned = static_cast<int>(index) % parts.group->size() == parts.group->rank();
    if (parameter.requires_grad || parameter.numel == 0 || !(owned || all)) continue;
    body(std::string(), Piece{.parameter = parameter.name,
                              .shape = parameter.shape,
                              .values = parts.parameters->leaves()[index].detach().view({-1})});
  }
}

TrainingState training_state(const Engine::Parts& parts) {
  TrainingState state{.steps = parts.steps,
                      .applied_steps = parts.applied_steps,
                      .skipped_steps = parts.steps - parts.applied_steps,
                      .consecutive_skips = parts.non_finite.skipped_in_a_row(),
                      .samples = parts.steps * parts.config.train_batch_size,
                      .tokens = parts.tokens,
                      .seed = parts.seed,
                      .schedule_position = parts.applied_steps - 1,
                      .loss_scaler = parts.scaler.state(),
                      .data = {.micro_step = parts.micro_steps,
                               .name = parts.data.name,
                               .token_count = parts.data.token_count,
                               .sequence_length = parts.data.sequence_length,
                               .shuffle = parts.data.shuffle},
                      .run = {.world_size = parts.group->size(),
                              .accumulation = parts.config.gradient_accumulation_steps,
                              .reduce_at = parts.plan.reduces_each_micro_batch() ? "micro_batch" : "boundary",
                              .half_products = parts.half_products ? std::string(name_of(*parts.half_products)) : "",
                              .threads_per_rank = at::get_num_threads(),
                              .simd_level = kernels::simd_level(),
                              .torch_version = built_with_torch()},
                      .model = parts.model.description,
                      .config = parts.config.to_json_text(),
                      .plan_hash = parts.plan.hash(),
                      .plan = plan::to_text(parts.plan)};
  for (const zero::ParameterGroup& group : parts.optimizer->groups()) state.group_steps.push_back(group.applied_steps);
  return state;
}

/// One line each for what makes a resumed run other bits, or other samples, than the run that it goes on with.
void warn_of_differences(const Log& log, const TrainingState& saved, const TrainingState& now) {
  std::vector<std::string> found = checkpoint::differences(saved.run, now.run);
  if (saved.seed != now.seed) found.push_back(fmt::format("seed ({} there, {} here)", saved.seed, now.seed));
  if (saved.data.sequence_length != now.data.sequence_length || saved.data.shuffle != now.data.shuffle ||
      saved.data.token_count != now.data.token_count)
    found.push_back("the data, its length or its order");
  if (!found.empty())
    log.warning(fmt::format("this run differs from the checkpoint's in {}: it goes on, but not bit for bit",
                            fmt::join(found, ", ")));
}

/// Samples that all ranks take together in one micro-step.
int64_t micro_step_samples(const Engine::Parts& parts) {
  return parts.config.train_micro_batch_size_per_gpu * parts.group->size();
}

/// Throws CheckpointError where this engine cannot go on from the checkpoint.
void check_loadable(const Engine::Parts& parts, const checkpoint::Reader& reader) {
  const TrainingState& state = reader.state();
  if (state.group_steps.size() != parts.optimizer->groups().size())
    throw CheckpointError(fmt::format("{}: has {} parameter groups, this run has {}; give the same lockstep.no_decay",
                                      reader.path(), state.group_steps.size(), parts.optimizer->groups().size()));
  // The data position in samples does not depend on how a batch is cut into ranks and micro-batches.
  if (state.samples % micro_step_samples(parts) != 0)
    throw CheckpointError(
        fmt::format("{}: stands at sample {}, where no micro-batch of {} samples over all ranks starts", reader.path(),
                    state.samples, micro_step_samples(parts)));
  for_each_piece(parts, /*all=*/true, [&reader](const std::string& name, const Piece& piece) {
    const auto saved = reader.parameters().find(piece.parameter);
    if (saved == reader.parameters().end() || !reader.has(piece.parameter, name))
      throw CheckpointError(fmt::format("{}: has no {}{} of {}; it was written by another model or optimizer",
                                        reader.path(), name.empty() ? "weights" : "state ", name, piece.parameter));
    if (saved->second != piece.shape)
      throw CheckpointError(fmt::format("{}: {} has shape [{}], the model's is [{}]", reader.path(), piece.parameter,
                                        fmt::join(saved->second, ", "), fmt::join(piece.shape, ", ")));
  });
}

/// A resumed run multiplies as the saved one did, unless the config says how.
void keep_half_products(Engine::Parts& parts, const std::string& saved) {
  if (!parts.half_products || parts.config.lockstep.half_products != LockstepConfig::HalfProducts::automatic) return;
  for (const auto products : {tensor::HalfProducts::native, tensor::HalfProducts::widened})
    if (saved == name_of(products)) engine::agree_on_half_products(parts, products);
}

std::string default_tag(const Config& config, int64_t steps) {
  return config.checkpoint.prefix ? fmt::format("{}-step_{}", *config.checkpoint.prefix, steps)
                                  : fmt::format("global_step{}", steps);
}

}  // namespace

void Engine::save_checkpoint(const std::string& directory, const std::string& tag) {
  const Parts& parts = *parts_;
  if (parts.backwards != 0 || parts.micro_batch != 0)
    throw CheckpointError("a checkpoint was asked for between a step's micro-batches; save after the step's boundary");
  checkpoint::SaveRequest request{.directory = directory,
                                  .tag = tag.empty() ? default_tag(parts.config, parts.steps) : tag,
                                  .state = training_state(parts)};
  for_each_piece(parts, /*all=*/false, [&request](const std::string& state, Piece piece) {
    piece.values = piece.values.to(at::kFloat);  // Itself, but for 16-bit weights without masters.
    (state.empty() ? request.weights : request.optimizer_states[state]).push_back(std::move(piece));
  });
  if (!parts.model.description.empty()) request.extra_files["config.json"] = parts.model.description;
  checkpoint::save(*parts.group, base::host_files(), request);
}

void Engine::load_checkpoint(const std::string& directory, const std::string& tag) {
  Parts& parts = *parts_;
  std::optional<checkpoint::Reader> reader;
  // Everything that can be wrong is found before the first value changes, on all ranks together.
  checkpoint::run_together(*parts.group, [&] {
    reader = checkpoint::Reader::open(base::host_files(), directory, tag);
    reader->verify();
    check_loadable(parts, *reader);
  });
  const TrainingState& state = reader->state();
  keep_half_products(parts, state.run.half_products);
  warn_of_differences(parts.log, state, training_state(parts));

  parts.calls->finish_backward();  // No unit stays whole with the values from before.
  checkpoint::run_together(*parts.group, [&] {
    for_each_piece(parts, /*all=*/true, [&reader](const std::string& name, const Piece& piece) {
      const at::Tensor values = piece.values.to(at::kFloat);
      reader->read(piece.parameter, name, piece.offset,
                   {values.mutable_data_ptr<float>(), static_cast<size_t>(values.numel())});
      if (!values.is_same(piece.values)) piece.values.copy_(values);
    });
  });
  parts.parameters->round_masters();
  parts.parameters->gather_updated();
  parts.steps = state.steps;
  parts.applied_steps = state.applied_steps;
  parts.micro_steps = state.samples / micro_step_samples(parts);
  parts.tokens = state.tokens;
  parts.non_finite.restore(state.consecutive_skips);
  parts.scaler.restore(state.loss_scaler);
  for (size_t group = 0; group < state.group_steps.size(); ++group)
    parts.optimizer->groups()[group].applied_steps = state.group_steps[group];
}

void Engine::export_weights(const std::string& directory) {
  const Parts& parts = *parts_;
  const auto& table = parts.plan.table;
  std::vector<tensor::NamedTensor> weights;
  // One at a time is whole; only rank 0 keeps it.
  for (size_t index = 0; index < table.parameters.size(); ++index) {
    const plan::Parameter& parameter = table.parameters[index];
    const at::Tensor values =
        parameter.requires_grad ? weight(parameter.name) : parts.parameters->leaves()[index].detach().to(at::kFloat);
    if (parts.group->rank() == 0) weights.push_back({.name = parameter.name, .values = values});
  }
  if (parts.group->rank() == 0) model::save_weights(directory, parts.model.description, weights);
  parts.group->barrier("the export of the weights");
}

}  // namespace lockstep
