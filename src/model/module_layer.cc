// Heavy unit: torch::nn::Module.
#include <fmt/format.h>
#include <torch/nn/module.h>

#include <unordered_map>

#include "base/check.h"
#include "lockstep/error.h"
#include "lockstep/models.h"

namespace lockstep::models {
namespace {

bool is_index(std::string_view text) { return !text.empty() && text.find_first_not_of("0123456789") == text.npos; }

/// "encoder.layers.0.linear1.weight" goes with "encoder.layers.0", "lstm.weight_ih_l0" with "lstm".
std::string unit_of(std::string_view name, const ModuleOptions& options) {
  std::string_view longest;
  for (const std::string& unit : options.units) {
    const bool fits = name.starts_with(unit) && (name.size() == unit.size() || name[unit.size()] == '.');
    if (fits && unit.size() > longest.size()) longest = unit;
  }
  if (!longest.empty()) return std::string(longest);
  size_t end = name.find('.');
  for (size_t begin = 0; begin < name.size();) {
    const size_t dot = std::min(name.find('.', begin), name.size());
    if (dot < name.size() && is_index(name.substr(begin, dot - begin))) end = dot;
    begin = dot + 1;
  }
  return std::string(name.substr(0, end));
}

/// A whole module with its loss as the model's only layer.
class ModuleLayer final : public LossLayer {
 public:
  ModuleLayer(std::shared_ptr<torch::nn::Module> module, ModuleLoss loss, const ModuleOptions& options,
              std::shared_ptr<bool> training)
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
                        .given = tensor,
                        .unit = unit_of(item.key(), options)});
    }
    if (specs_.empty() && problems.empty()) problems.emplace_back("the module has no parameters");
    if (!problems.empty()) throw ConfigError(std::move(problems));
  }

  std::vector<ParameterSpec> describe() const override { return specs_; }

  bool is_observed() const override { return true; }
  // The module holds the leaves itself: nothing to keep.  Its buffers go with their type.
  void build(std::span<const at::Tensor> parameters) override {
    LOCKSTEP_CHECK_EQ(parameters.size(), specs_.size());
    const at::ScalarType type = parameters.front().scalar_type();
    for (at::Tensor& buffer : module_->buffers())
      if (buffer.is_floating_point() && buffer.scalar_type() != type) buffer.set_data(buffer.to(type));
  }

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

LayerStack wrap_module(std::shared_ptr<torch::nn::Module> module, ModuleLoss loss, const ModuleOptions& options) {
  if (!module || !loss) throw ConfigError("wrap_module: needs a module and a loss function");
  LayerStack stack;
  stack.head = std::make_shared<ModuleLayer>(std::move(module), std::move(loss), options, stack.training);
  return stack;
}

}  // namespace lockstep::models
