// Heavy unit: autograd's own headers.
#include "zero/gradient_hooks.h"

#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

namespace lockstep::zero {
namespace {

class ReadyHook final : public torch::autograd::PostAccumulateGradHook {
 public:
  ReadyHook(const std::function<void(int)>& ready, int index) : ready_(ready), index_(index) {}
  void operator()(const torch::autograd::Variable& /*leaf*/) override { ready_(index_); }

 private:
  const std::function<void(int)>& ready_;
  const int index_;
};

}  // namespace

void on_gradient_ready(std::span<const at::Tensor> leaves, const std::function<void(int)>* ready) {
  for (size_t index = 0; index < leaves.size(); ++index) {
    if (!leaves[index].requires_grad()) continue;
    std::unique_ptr<torch::autograd::PostAccumulateGradHook> hook;
    if (ready != nullptr) hook = std::make_unique<ReadyHook>(*ready, static_cast<int>(index));
    torch::autograd::impl::set_post_acc_grad_hooks(leaves[index], std::move(hook));
  }
}

}  // namespace lockstep::zero
