#include "model/gpt2.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cmath>

#include "base/check.h"
#include "model/ops/attention.h"
#include "model/ops/embedding.h"
#include "model/ops/layer_norm.h"
#include "model/ops/linear.h"
#include "model/ops/linear_cross_entropy.h"
#include "model/tokens.h"

namespace lockstep::model {
namespace {

using models::Gpt2Options;
using ops::WeightLayout;
using Training = std::shared_ptr<bool>;  // Shared with the LayerStack, which outlives no layer.
using Kind = Initialization::Kind;

constexpr const char* kTokenEmbedding = "transformer.wte.weight";

at::Tensor drop(const at::Tensor& x, double probability, bool training) {
  return training && probability > 0 ? at::dropout(x, probability, /*train=*/true) : x;
}

/// Token and position embeddings: int64 [batch, T] to [batch, T, width].
class Gpt2Embedding final : public Layer {
 public:
  Gpt2Embedding(const Gpt2Options& options, Training training) : options_(options), training_(std::move(training)) {}

  std::vector<ParameterSpec> describe() const override {
    const Initialization normal{.deviation = options_.initializer_range};
    return {
        {.name = kTokenEmbedding, .shape = {options_.vocabulary, options_.width}, .initialization = normal},
        {.name = "transformer.wpe.weight", .shape = {options_.positions, options_.width}, .initialization = normal}};
  }

  bool backward_reads_parameters() const override { return false; }

  void build(std::span<const at::Tensor> parameters) override {
    LOCKSTEP_CHECK_EQ(parameters.size(), 2U);
    tokens_ = parameters[0];
    positions_ = parameters[1];
  }

  std::vector<at::Tensor> forward(std::span<const at::Tensor> inputs) override {
    const at::Tensor& input = inputs.front();
    check_tokens(input, options_.positions);
    const at::Tensor x = ops::embedding(tokens_, input) + positions_.narrow(0, 0, input.size(1));
    return {drop(x, options_.embedding_dropout, *training_)};
  }

 private:
  const Gpt2Options options_;
  const Training training_;
  at::Tensor tokens_, positions_;
};

/// Attention and MLP, each behind a layer norm and added to the residual.
class Gpt2Block final : public Layer {
 public:
  Gpt2Block(const Gpt2Options& options, int64_t index, Training training)
      : options_(options), name_(fmt::format("transformer.h.{}.", index)), training_(std::move(training)) {}

  std::vector<ParameterSpec> describe() const override {
    const int64_t width = options_.width;
    const int64_t mlp_width = options_.mlp_width != 0 ? options_.mlp_width : 4 * width;
    const double residual_deviation =
        options_.initializer_range / std::sqrt(2.0 * static_cast<double>(options_.layers));
    std::vector<ParameterSpec> specs;
    const auto norm = [&](const char* name) {
      specs.push_back({.name = name_ + name + ".weight", .shape = {width}, .initialization = {.kind = Kind::ones}});
      specs.push_back({.name = name_ + name + ".bias", .shape = {width}, .initialization = {.kind = Kind::zeros}});
    };
    const auto linear = [&](const char* name, int64_t in, int64_t out, double deviation) {
      specs.push_back(
          {.name = name_ + name + ".weight", .shape = {in, out}, .initialization = {.deviation = deviation}});
      specs.push_back({.name = name_ + name + ".bias", .shape = {out}, .initialization = {.kind = Kind::zeros}});
    };
    norm("ln_1");
    linear("attn.c_attn", width, 3 * width, options_.initializer_range);
    linear("attn.c_proj", width, width, residual_deviation);
    norm("ln_2");
    linear("mlp.c_fc", width, mlp_width, options_.initializer_range);
    linear("mlp.c_proj", mlp_width, width, residual_deviation);
    return specs;
  }

  void build(std::span<const at::Tensor> parameters) override {
    LOCKSTEP_CHECK_EQ(parameters.size(), 12U);
    const auto pair = [&](size_t i) { return Pair{parameters[2 * i], parameters[2 * i + 1]}; };
    norm_1_ = pair(0);
    attention_in_ = pair(1);
    attention_out_ = pair(2);
    norm_2_ = pair(3);
    mlp_in_ = pair(4);
    mlp_out_ = pair(5);
  }

  std::vector<at::Tensor> forward(std::span<const at::Tensor> inputs) override {
    const at::Tensor& x = inputs.front();
    const at::Tensor after_attention =
        x + drop(attention(normalized(x, norm_1_)), options_.residual_dropout, *training_);
    return {after_attention + drop(mlp(normalized(after_attention, norm_2_)), options_.residual_dropout, *training_)};
  }

 private:
  struct Pair {
    at::Tensor weight{}, bias{};
  };

  at::Tensor normalized(const at::Tensor& x, const Pair& norm) const {
    return ops::layer_norm(x, norm.weight, norm.bias, options_.layer_norm_epsilon);
  }

  at::Tensor attention(const at::Tensor& x) const {
    const at::Tensor qkv = ops::linear(x, attention_in_.weight, attention_in_.bias, WeightLayout::in_out);
    const at::Tensor y = ops::causal_self_attention(qkv, options_.heads, *training_ ? options_.attention_dropout : 0.0);
    return ops::linear(y, attention_out_.weight, attention_out_.bias, WeightLayout::in_out);
  }

  at::Tensor mlp(const at::Tensor& x) const {
    const at::Tensor y = ops::linear_gelu(x, mlp_in_.weight, mlp_in_.bias, WeightLayout::in_out);
    return ops::linear(y, mlp_out_.weight, mlp_out_.bias, WeightLayout::in_out);
  }

  const Gpt2Options options_;
  const std::string name_;
  const Training training_;
  Pair norm_1_, attention_in_, attention_out_, norm_2_, mlp_in_, mlp_out_;
};

/// Last layer norm, logits, loss.
class Gpt2Head final : public LossLayer {
 public:
  explicit Gpt2Head(const Gpt2Options& options) : options_(options) {}

  std::vector<ParameterSpec> describe() const override {
    return {{.name = "transformer.ln_f.weight", .shape = {options_.width}, .initialization = {.kind = Kind::ones}},
            {.name = "transformer.ln_f.bias", .shape = {options_.width}, .initialization = {.kind = Kind::zeros}},
            {.name = "lm_head.weight",
             .shape = {options_.vocabulary, options_.width},
             .initialization = {.deviation = options_.initializer_range},
             .tied_to = options_.tied_head ? kTokenEmbedding : ""}};
  }

  void build(std::span<const at::Tensor> parameters) override {
    LOCKSTEP_CHECK_EQ(parameters.size(), 3U);
    norm_weight_ = parameters[0];
    norm_bias_ = parameters[1];
    weight_ = parameters[2];
  }

  at::Tensor loss(const at::Tensor& hidden, const at::Tensor& labels) override {
    return ops::linear_cross_entropy(normalized(hidden).reshape({-1, options_.width}), weight_, labels.reshape({-1}));
  }

  at::Tensor logits(const at::Tensor& hidden) override {
    return ops::linear(normalized(hidden), weight_, {}, WeightLayout::out_in);
  }

 private:
  at::Tensor normalized(const at::Tensor& hidden) const {
    return ops::layer_norm(hidden, norm_weight_, norm_bias_, options_.layer_norm_epsilon);
  }

  const Gpt2Options options_;
  at::Tensor norm_weight_, norm_bias_, weight_;
};

}  // namespace
}  // namespace lockstep::model

namespace lockstep::models {

LayerStack gpt2(const Gpt2Options& options) {
  model::check(options);
  LayerStack stack{
      .max_sequence = options.positions, .vocabulary = options.vocabulary, .description = model::config_json(options)};
  stack.layers.push_back(std::make_shared<model::Gpt2Embedding>(options, stack.training));
  for (int64_t i = 0; i < options.layers; ++i)
    stack.layers.push_back(std::make_shared<model::Gpt2Block>(options, i, stack.training));
  stack.head = std::make_shared<model::Gpt2Head>(options);
  return stack;
}

}  // namespace lockstep::models
