#include "zero/sharded_optimizer.h"

#include <ATen/Parallel.h>
#include <ATen/ops/full.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "kernels/exact_sum.h"
#include "kernels/sums.h"
#include "lockstep/communicator.h"

namespace lockstep::zero {
namespace {

constexpr int64_t kChunkNumel = 16 * 1024;  // Large enough to hide a call; widened, it stays in the cache.

}  // namespace

std::vector<ParameterGroup> make_groups(const plan::ParameterTable& table, double lr, double weight_decay) {
  ParameterGroup decayed{.lr = lr, .weight_decay = weight_decay};
  ParameterGroup exempt{.lr = lr};
  for (size_t index = 0; index < table.parameters.size(); ++index) {
    const plan::Parameter& parameter = table.parameters[index];
    if (parameter.requires_grad) (parameter.decay ? decayed : exempt).parameters.push_back(static_cast<int>(index));
  }
  std::vector<ParameterGroup> groups;
  for (ParameterGroup* group : {&decayed, &exempt})
    if (!group->parameters.empty()) groups.push_back(std::move(*group));
  return groups;
}

ShardedOptimizer::ShardedOptimizer(const optim::Optimizer& rule, const plan::Plan& plan,
                                   const ParameterStore& parameters, int rank, std::vector<ParameterGroup> groups)
    : rule_(rule),
      plan_(plan),
      groups_(std::move(groups)),
      state_names_(rule.state_names()),
      trainable_(plan.table.parameters.size(), true),
      chunks_(groups_.size()) {
  const bool everything = plan.updates_everything();
  for (const plan::UnitLayout& layout : plan.layouts) {
    auto& states = states_.emplace_back();
    for (size_t state = 0; state < state_names_.size(); ++state)
      states.push_back(
          at::full({everything ? layout.numel : layout.slice_numel}, rule.initial_state(state), at::kFloat));
  }
  std::vector<size_t> group_of(plan.table.parameters.size());
  for (size_t group = 0; group < groups_.size(); ++group)
    for (const int parameter : groups_[group].parameters) group_of[static_cast<size_t>(parameter)] = group;

  for (size_t index = 0; index < plan.segments.size(); ++index) {
    const plan::Segment& segment = plan.segments[index];
    if (!everything && segment.owner != rank) continue;
    const auto value = tensor::mutable_elements_of(parameters.values(segment));
    const auto weight =
        plan.keeps_masters() ? tensor::mutable_elements_of(parameters.weights(segment)) : tensor::MutableElements{};
    for (int64_t begin = 0; begin < segment.numel; begin += kChunkNumel) {
      Chunk chunk{.segment = static_cast<int>(index),
                  .begin = begin,
                  .numel = std::min(kChunkNumel, segment.numel - begin),
                  .value = value.from(begin)};
      if (weight.data != nullptr) chunk.weight = weight.from(begin);
      for (size_t state = 0; state < state_names_.size(); ++state)
        chunk.states.push_back(this->state(segment, static_cast<int>(state)).mutable_data_ptr<float>() + begin);
      chunks_[group_of[static_cast<size_t>(segment.parameter)]].push_back(std::move(chunk));
    }
  }
}

at::Tensor ShardedOptimizer::state(const plan::Segment& segment, int state) const {
  const auto unit = static_cast<size_t>(plan_.table.parameters[static_cast<size_t>(segment.parameter)].unit);
  const int64_t first = plan_.updates_everything() ? 0 : segment.owner * plan_.layouts[unit].slice_numel;
  return states_[unit][static_cast<size_t>(state)].narrow(0, segment.unit_begin - first, segment.numel);
}

void ShardedOptimizer::update(const GradientReducer& gradients,
                              const std::function<optim::UpdateContext(const ParameterGroup&)>& context) {
  for (size_t group = 0; group < groups_.size(); ++group) {
    const optim::UpdateContext group_context = context(groups_[group]);
    const std::vector<Chunk>& chunks = chunks_[group];
    at::parallel_for(0, static_cast<int64_t>(chunks.size()), 1, [&](int64_t begin, int64_t end) {
      for (int64_t at = begin; at < end; ++at) update_chunk(group_context, chunks[static_cast<size_t>(at)], gradients);
    });
  }
}

void ShardedOptimizer::update_chunk(const optim::UpdateContext& context, const Chunk& chunk,
                                    const GradientReducer& gradients) const {
  const plan::Segment& segment = plan_.segments[static_cast<size_t>(chunk.segment)];
  if (!trainable_[static_cast<size_t>(segment.parameter)]) return;
  std::vector<float> gradient_scratch;
  std::vector<float> value_scratch;
  const bool in_place = chunk.value.type == at::kFloat;
  if (!in_place) (void)tensor::widened({chunk.value.data, chunk.value.type}, chunk.numel, value_scratch);
  const optim::Slice slice{
      .value = in_place ? static_cast<float*>(chunk.value.data) : value_scratch.data(),
      .gradient = tensor::widened(gradients.gradient(segment).from(chunk.begin), chunk.numel, gradient_scratch),
      .states = chunk.states,
      .numel = chunk.numel};
  rule_.update(context, {&slice, 1});
  const tensor::MutableElements weight = in_place ? chunk.weight : chunk.value;
  if (weight.data != nullptr) tensor::convert({slice.value, at::kFloat}, weight, chunk.numel);
}

std::vector<double> parameter_norms(Communicator& group, const plan::Plan& plan,
                                    const std::function<tensor::Elements(const plan::Segment&)>& values) {
  struct Squares {
    kernels::ExactSum sum{};
    int64_t finite = 1;
  };
  static_assert(std::is_trivially_copyable_v<Squares>);
  constexpr size_t kAtATime = 256;  // A record is at most 64 KiB.
  std::vector<Squares> mine(plan.table.parameters.size());
  for (const plan::Segment& segment : plan.segments) {
    if (segment.owner != group.rank()) continue;
    Squares& squares = mine[static_cast<size_t>(segment.parameter)];
    tensor::for_each_widened(values(segment), segment.numel, [&](const float* run, int64_t /*begin*/, int64_t count) {
      if (!kernels::add_squares(run, count, squares.sum)) squares.finite = 0;
    });
  }
  std::vector<double> norms;
  std::vector<Squares> all;
  for (size_t begin = 0; begin < mine.size(); begin += kAtATime) {
    const size_t count = std::min(kAtATime, mine.size() - begin);
    all.assign(count * static_cast<size_t>(group.size()), {});
    group.all_gather_records(std::as_bytes(std::span(mine).subspan(begin, count)),
                             std::as_writable_bytes(std::span(all)), "every parameter's norm");
    for (size_t index = 0; index < count; ++index) {
      Squares total;
      for (size_t at = index; at < all.size(); at += count) {
        total.sum.add(all[at].sum);
        total.finite = std::min(total.finite, all[at].finite);
      }
      norms.push_back(total.finite == 1 ? std::sqrt(total.sum.rounded()) : std::nan(""));
    }
  }
  return norms;
}

}  // namespace lockstep::zero
