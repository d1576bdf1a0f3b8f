#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "optim/optimizer.h"
#include "plan/plan.h"
#include "zero/gradient_reducer.h"
#include "zero/parameter_store.h"

namespace lockstep::zero {

/// Parameters that share weight decay and rates.
struct ParameterGroup {
  double lr = 0;  ///< As the optimizer's block gives it; a schedule may replace it.
  double weight_decay = 0;
  int64_t applied_steps = 0;
  std::vector<int> parameters{};  ///< Indices into the plan's table.
};

/// The parameters that decay, then those that do not; an empty group is left out.
std::vector<ParameterGroup> make_groups(const plan::ParameterTable& table, double lr, double weight_decay);

/// Keeps the optimizer's states of the segments that this rank updates and applies its rule to them, in fp32; 16-bit
/// weights are rounded from their masters, or from themselves where there are none, in the same pass.  Used by one
/// thread; update() spreads the slices over LibTorch's threads, with the same bits for any number of them.
class ShardedOptimizer {
 public:
  /// Everything passed by reference must outlive it.
  ShardedOptimizer(const optim::Optimizer& rule, const plan::Plan& plan, const ParameterStore& parameters, int rank,
                   std::vector<ParameterGroup> groups);

  /// One pass over every element that this rank updates (Plan::updates_everything).  context(group) says with what;
  /// groups' applied_steps are the caller's to count.
  void update(const GradientReducer& gradients,
              const std::function<optim::UpdateContext(const ParameterGroup&)>& context);

  /// Whether update() changes a parameter and its states; at first it changes all.
  void set_trainable(int parameter, bool trainable) { trainable_[static_cast<size_t>(parameter)] = trainable; }

  [[nodiscard]] std::vector<ParameterGroup>& groups() { return groups_; }
  [[nodiscard]] const std::vector<ParameterGroup>& groups() const { return groups_; }
  [[nodiscard]] const std::vector<std::string>& state_names() const { return state_names_; }
  /// The state's elements for a segment that this rank updates: [numel], a view, fp32.
  [[nodiscard]] at::Tensor state(const plan::Segment& segment, int state) const;

 private:
  /// A run of at most kChunkNumel elements of one segment.
  struct Chunk {
    int segment = 0;
    int64_t begin = 0;  ///< In the segment.
    int64_t numel = 0;
    tensor::MutableElements value{};   ///< Masters, or weights.
    tensor::MutableElements weight{};  ///< To round to from masters; null where there are none.
    std::vector<float*> states{};
  };

  void update_chunk(const optim::UpdateContext& context, const Chunk& chunk, const GradientReducer& gradients) const;

  const optim::Optimizer& rule_;
  const plan::Plan& plan_;
  std::vector<ParameterGroup> groups_;
  std::vector<std::string> state_names_;
  std::vector<bool> trainable_;                  ///< By parameter.
  std::vector<std::vector<at::Tensor>> states_;  ///< [unit][state]: of the unit, or of its own slice.
  std::vector<std::vector<Chunk>> chunks_;       ///< By group.
};

/// By parameter: the L2 norm of values(segment), from exact sums, the same on every rank and at any sharding; NaN where
/// an element is not finite, 0 for frozen parameters.  values is asked for own segments.  Collective.  Throws
/// CommError.
std::vector<double> parameter_norms(Communicator& group, const plan::Plan& plan,
                                    const std::function<tensor::Elements(const plan::Segment&)>& values);

}  // namespace lockstep::zero
