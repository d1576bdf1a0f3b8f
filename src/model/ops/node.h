// Heavy header: autograd's nodes.  For the units of this folder only.
#pragma once

#include <ATen/ATen.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <memory>
#include <string>

namespace lockstep::model::ops {

using torch::autograd::SavedVariable;
using torch::autograd::variable_list;

/// An operation of one result whose gradient is written by hand, in first order only.
class FirstOrderNode : public torch::autograd::Node {
 public:
  variable_list apply(variable_list&& gradients) final {
    TORCH_CHECK(!at::GradMode::is_enabled(), name(), " has no second derivative: call backward without create_graph");
    const std::lock_guard lock(mutex_);
    at::Tensor dy = std::move(gradients[0]);
    if (!dy.defined()) return variable_list(num_outputs());
    return backward(dy.is_contiguous() ? std::move(dy) : dy.contiguous());
  }

  void will_release_variables() final { last_use_ = true; }
  void release_variables() final {
    const std::lock_guard lock(mutex_);
    forget();
  }

 protected:
  /// dy: the result's gradient, contiguous.  Returns one gradient per input of make_node; undefined for none.
  virtual variable_list backward(at::Tensor dy) = 0;
  /// Lets go of everything kept for backward.
  virtual void forget() = 0;

  /// True in the last backward through this node: what was kept may be overwritten or given away.
  [[nodiscard]] bool last_use() const { return last_use_; }

 private:
  bool last_use_ = false;
};

/// True where nothing but `x` sees its memory, so that it may be overwritten.
inline bool sole_owner(const at::Tensor& x) { return x.use_count() == 1 && x.storage().use_count() == 1; }

/// The node of an operation on `inputs`, or null where no gradient is wanted.
template <class NodeType, class... Inputs>
std::shared_ptr<NodeType> make_node(const Inputs&... inputs) {
  if (!torch::autograd::compute_requires_grad(inputs...)) return nullptr;
  std::shared_ptr<NodeType> node(new NodeType, torch::autograd::deleteNode);
  node->set_next_edges(torch::autograd::collect_next_edges(inputs...));
  return node;
}

/// `x`, or its contiguous copy.
inline at::Tensor contiguous(const at::Tensor& x) { return x.is_contiguous() ? x : x.contiguous(); }

}  // namespace lockstep::model::ops
