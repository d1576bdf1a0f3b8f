#pragma once

#include <ATen/ATen.h>

#include "lockstep/layer.h"

namespace lockstep::testing_models {

/// weight [out, in] and bias [out], tanh after it; with dropout where asked.
class TanhLayer final : public Layer {
 public:
  TanhLayer(std::string name, int64_t in, int64_t out, std::shared_ptr<bool> training, double dropout, bool frozen)
      : name_(std::move(name)),
        in_(in),
        out_(out),
        training_(std::move(training)),
        dropout_(dropout),
        frozen_(frozen) {}
  std::vector<ParameterSpec> describe() const override {
    return {{.name = name_ + ".weight",
             .shape = {out_, in_},
             .initialization = {.deviation = 0.5},
             .requires_grad = !frozen_},
            {.name = name_ + ".bias",
             .shape = {out_},
             .initialization = {.kind = Initialization::Kind::zeros},
             .requires_grad = !frozen_}};
  }
  void build(std::span<const at::Tensor> parameters) override {
    weight_ = parameters[0];
    bias_ = parameters[1];
  }
  std::vector<at::Tensor> forward(std::span<const at::Tensor> inputs) override {
    return {at::dropout(at::tanh(at::linear(inputs[0], weight_, bias_)), dropout_, *training_)};
  }

 private:
  std::string name_;
  int64_t in_, out_;
  std::shared_ptr<bool> training_;
  double dropout_;
  bool frozen_;
  at::Tensor weight_, bias_;
};

/// weight [classes, in], a scalar shift and cross-entropy; the weight may be tied, the shift unused.
class Classifier final : public LossLayer {
 public:
  Classifier(int64_t in, int64_t classes, std::string tied_to, bool use_shift)
      : in_(in), classes_(classes), tied_to_(std::move(tied_to)), use_shift_(use_shift) {}
  std::vector<ParameterSpec> describe() const override {
    return {
        {.name = "head.weight", .shape = {classes_, in_}, .initialization = {.deviation = 0.5}, .tied_to = tied_to_},
        {.name = "head.shift", .shape = {1}, .initialization = {.kind = Initialization::Kind::ones}}};
  }
  void build(std::span<const at::Tensor> parameters) override {
    weight_ = parameters[0];
    shift_ = parameters[1];
  }
  at::Tensor logits(const at::Tensor& hidden) override {
    const at::Tensor out = at::matmul(hidden, weight_.t());
    return use_shift_ ? out * shift_ : out;
  }
  at::Tensor loss(const at::Tensor& hidden, const at::Tensor& labels) override {
    return at::cross_entropy_loss(logits(hidden), labels);
  }

 private:
  int64_t in_, classes_;
  std::string tied_to_;
  bool use_shift_;
  at::Tensor weight_, shift_;
};

struct TinyOptions {
  double dropout = 0;
  bool frozen_middle = false;
  bool tied = false;  ///< The head's weight is the last layer's.
  bool unused_shift = false;
};

/// By default 4 -> 7 -> classes: 4*7+7 + 7*3+1 = 57 parameters, which nothing divides.
inline LayerStack tiny(const TinyOptions& options = {}) {
  LayerStack model;
  model.training = std::make_shared<bool>(true);
  model.layers.push_back(std::make_shared<TanhLayer>("first", 4, 7, model.training, options.dropout, false));
  if (options.frozen_middle)
    model.layers.push_back(std::make_shared<TanhLayer>("middle", 7, 7, model.training, 0.0, true));
  if (options.tied) model.layers.push_back(std::make_shared<TanhLayer>("last", 7, 7, model.training, 0.0, false));
  model.head =
      std::make_shared<Classifier>(7, options.tied ? 7 : 3, options.tied ? "last.weight" : "", !options.unused_shift);
  return model;
}

}  // namespace lockstep::testing_models
