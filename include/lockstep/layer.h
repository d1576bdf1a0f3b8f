#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lockstep/export.h"

namespace LOCKSTEP_API lockstep {

/// How a parameter gets its first values.  They depend on the run's seed and the parameter's name, on nothing else.
struct Initialization {
  enum class Kind {
    normal,  ///< Normal with mean 0 and standard deviation `deviation`.
    zeros,
    ones,
    given,  ///< The values of ParameterSpec::given.
  };
  Kind kind = Kind::normal;
  double deviation = 0.02;
};

/// One parameter of a layer, before any tensor exists.
struct ParameterSpec {
  std::string name{};  ///< Whole name, unique in the model: "transformer.h.0.attn.c_attn.weight".
  std::vector<int64_t> shape{};
  Initialization initialization{};
  bool requires_grad = true;
  std::string tied_to{};  ///< Name of the parameter of an earlier layer that this one is; empty for none.
  at::Tensor given{};     ///< A tensor that already exists (a wrapped module's): it stays the leaf.
  std::string unit{};     ///< What it is sharded with, where a layer is more than one unit; empty: the layer.
};

/// A piece of a model that is built, run and (later) sharded as one unit.  Used by one thread at a time.
class Layer {
 public:
  virtual ~Layer() = default;
  /// The parameters in a fixed order.  Makes no tensor.
  [[nodiscard]] virtual std::vector<ParameterSpec> describe() const = 0;
  /// Takes the parameters in describe()'s order.  The tensors are kept: they are views of the engine's storage, whose
  /// values change with every step.
  virtual void build(std::span<const at::Tensor> parameters) = 0;
  /// True where operators read parameters that the engine cannot know beforehand, as a wrapped module's do: units are
  /// then made whole as operators take them.
  [[nodiscard]] virtual bool is_observed() const { return false; }
  /// False where backward needs no parameter's values, as a look-up's does not: they are then not gathered for it.
  [[nodiscard]] virtual bool backward_reads_parameters() const { return true; }
  /// Requires: build() was called.  The first layer gets the loader's input, each other the one before's result.
  [[nodiscard]] virtual std::vector<at::Tensor> forward(std::span<const at::Tensor> inputs) = 0;
};

/// The last layer of a model: turns hidden states into the loss.
class LossLayer : public Layer {
 public:
  /// hidden: what the layer before returned; labels: int64 class indices.  Returns the mean loss, a scalar in fp32.
  [[nodiscard]] virtual at::Tensor loss(const at::Tensor& hidden, const at::Tensor& labels) = 0;
  /// hidden [..., width] to logits [..., classes].
  [[nodiscard]] virtual at::Tensor logits(const at::Tensor& hidden) = 0;
  [[nodiscard]] std::vector<at::Tensor> forward(std::span<const at::Tensor> inputs) override {
    return {logits(inputs.front())};
  }
};

/// A model as a list of layers, of which the last computes the loss.  Copies share the layers.
struct LayerStack {
  std::vector<std::shared_ptr<Layer>> layers{};
  std::shared_ptr<LossLayer> head{};  ///< Runs last; not in `layers`.
  int64_t max_sequence = 0;           ///< Longest sequence it takes, in tokens; 0 for any.
  int64_t vocabulary = 0;             ///< Number of classes; 0 where it has none.
  /// Read by layers with dropout; the engine clears it while it evaluates.  Shared by the copies.
  std::shared_ptr<bool> training = std::make_shared<bool>(true);
  std::string description{};  ///< The model's config.json, written beside checkpoints; may be empty.

  /// Throws ConfigError unless names are unique, ties point backwards and shapes agree.
  void check() const;
};

}  // namespace lockstep
