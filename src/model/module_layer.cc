// Heavy unit: torch::nn::Module.
#include <fmt/format.h>
#include <torch/nn/module.h>

#include <unordered_map>

#include "base/check.h"
#include "lockstep/error.h"
#include "lockstep/models.h"

namespace lockstep::models {
namespace {

/// A whole module with its loss as the model's only layer.
class ModuleLayer final : public LossLayer {
 public:
  ModuleLayer(std::shared_ptr<torch::nn::Module> module, ModuleLoss loss, std::shared_ptr<bool> training)
      : module_(std::move(module)), loss_(std::move(loss)), training_(std::move(training)) {
    std::vector<std::string> problems;
    std::unordered_map<const at::TensorImpl*, std::string> first_name;
    for (const auto& item : module_->named_parameters()) {
      const at::Tensor& tensor = item.value();
      if (!tensor.defined()) continue;
      if (tensor.scalar_type() != at::kFloat || !tensor.is_cpu()) {
        problems.push_back(fmt::format("module parameter {}: is {} on {}; expected fp32 on the CPU", item.key(),
                                       c10::toString(tensor.scalar_type()), tensor.device().str()));
        continue;
      }
      const auto [seen, is_new] = first_name.emplace(tensor.unsafeGetTensorImpl(), item.key());
      specs_.push_back({.name = item.key(),
                        .shape = tensor.sizes().vec(),
                        .initialization = {.kind = Initialization::Kind::given},
                        .requires_grad = tensor.requires_grad(),
                        .tied_to = is_new ? "" : seen->second,
                        .given = tensor});
    }
    if (specs_.empty() && problems.empty()) problems.emplace_back("the module has no parameters");
    if (!problems.empty()) throw ConfigError(std::move(problems));
  }

  std::vector<ParameterSpec> describe() const override { return specs_; }

  // The module holds the leaves itself: nothing to keep.
  void build(std::span<const at::Tensor> parameters) override { LOCKSTEP_CHECK_EQ(parameters.size(), specs_.size()); }

  at::Tensor loss(const at::Tensor& hidden, const at::Tensor& labels) override {
    if (module_->is_training() != *training_) module_->train(*training_);
    at::Tensor result = loss_(hidden, labels);
    if (!result.defined() || result.numel() != 1)
      throw ConfigError("the module's loss function must return one number, the micro-batch's mean loss");
    return result.reshape({}).to(at::kFloat);
  }

  at::Tensor logits(const at::Tensor& /*hidden*/) override {
    throw ConfigError("a wrapped module has no logits of its own; call the module");
  }

 private:
  const std::shared_ptr<torch::nn::Module> module_;  // Shared with the caller, who goes on using it.
  const ModuleLoss loss_;
  const std::shared_ptr<bool> training_;
  std::vector<ParameterSpec> specs_;
};

}  // namespace

LayerStack wrap_module(std::shared_ptr<torch::nn::Module> module, ModuleLoss loss) {
  if (!module || !loss) throw ConfigError("wrap_module: needs a module and a loss function");
  LayerStack stack;
  stack.head = std::make_shared<ModuleLayer>(std::move(module), std::move(loss), stack.training);
  return stack;
}

}  // namespace lockstep::models
