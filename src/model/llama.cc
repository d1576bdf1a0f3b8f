#include "model/llama.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "base/check.h"
#include "model/ops/attention.h"
#include "model/ops/embedding.h"
#include "model/ops/linear.h"
#include "model/ops/linear_cross_entropy.h"
#include "model/rotary.h"
#include "model/tokens.h"

namespace lockstep::model {
namespace {

using models::LlamaOptions;
using ops::WeightLayout;
using Training = std::shared_ptr<bool>;  // Shared with the LayerStack, which outlives no layer.
using Kind = Initialization::Kind;

constexpr const char* kTokenEmbedding = "model.embed_tokens.weight";

at::Tensor normalized(const at::Tensor& x, const at::Tensor& weight, double epsilon) {
  return at::rms_norm(x, {x.size(-1)}, weight, epsilon);
}

/// Token embedding: int64 [batch, T] to [batch, T, width].
class LlamaEmbedding final : public Layer {
 public:
  explicit LlamaEmbedding(const LlamaOptions& options) : options_(options) {}

  std::vector<ParameterSpec> describe() const override {
    return {{.name = kTokenEmbedding,
             .shape = {options_.vocabulary, options_.width},
             .initialization = {.deviation = options_.initializer_range}}};
  }

  bool backward_reads_parameters() const override { return false; }

  void build(std::span<const at::Tensor> parameters) override {
    LOCKSTEP_CHECK_EQ(parameters.size(), 1U);
    weight_ = parameters[0];
  }

  std::vector<at::Tensor> forward(std::span<const at::Tensor> inputs) override {
    check_tokens(inputs.front(), options_.positions);
    return {ops::embedding(weight_, inputs.front())};
  }

 private:
  const LlamaOptions options_;
  at::Tensor weight_;
};

/// A weight [out, in] and a bias, undefined where the model has none.
struct Linear {
  at::Tensor weight{}, bias{};

  at::Tensor operator()(const at::Tensor& x) const { return ops::linear(x, weight, bias, WeightLayout::out_in); }
};

/// Attention with rotary positions and grouped queries, and a SwiGLU MLP, each behind an RMS norm and added to the
/// residual.
class LlamaBlock final : public Layer {
 public:
  /// rotary: shared by the model's blocks, for its table.
  LlamaBlock(const LlamaOptions& options, int64_t index, std::shared_ptr<Rotary> rotary, Training training)
      : options_(options),
        name_(fmt::format("model.layers.{}.", index)),
        rotary_(std::move(rotary)),
        training_(std::move(training)) {}

  std::vector<ParameterSpec> describe() const override {
    const int64_t width = options_.width;
    const int64_t query_width = options_.heads * options_.head_width;
    const int64_t kv_width = options_.kv_heads * options_.head_width;
    std::vector<ParameterSpec> specs;
    const auto norm = [&](const char* name) {
      specs.push_back({.name = name_ + name + ".weight", .shape = {width}, .initialization = {.kind = Kind::ones}});
    };
    const auto linear = [&](const char* name, int64_t in, int64_t out, bool bias) {
      specs.push_back({.name = name_ + name + ".weight",
                       .shape = {out, in},
                       .initialization = {.deviation = options_.initializer_range}});
      if (bias)
        specs.push_back({.name = name_ + name + ".bias", .shape = {out}, .initialization = {.kind = Kind::zeros}});
    };
    norm("input_layernorm");
    linear("self_attn.q_proj", width, query_width, options_.attention_bias);
    linear("self_attn.k_proj", width, kv_width, options_.attention_bias);
    linear("self_attn.v_proj", width, kv_width, options_.attention_bias);
    linear("self_attn.o_proj", query_width, width, options_.attention_bias);
    norm("post_attention_layernorm");
    linear("mlp.gate_proj", width, options_.mlp_width, options_.mlp_bias);
    linear("mlp.up_proj", width, options_.mlp_width, options_.mlp_bias);
    linear("mlp.down_proj", options_.mlp_width, width, options_.mlp_bias);
    return specs;
  }

  void build(std::span<const at::Tensor> parameters) override {
    size_t next = 0;
    const auto take = [&] { return parameters[next++]; };
    const auto take_linear = [&](bool bias) {
      const at::Tensor weight = take();
      return Linear{weight, bias ? take() : at::Tensor()};
    };
    attention_norm_ = take();
    for (Linear* linear : {&query_, &key_, &value_, &attention_out_}) *linear = take_linear(options_.attention_bias);
    mlp_norm_ = take();
    for (Linear* linear : {&gate_, &up_, &down_}) *linear = take_linear(options_.mlp_bias);
    LOCKSTEP_CHECK_EQ(parameters.size(), next);
  }

  std::vector<at::Tensor> forward(std::span<const at::Tensor> inputs) override {
    const at::Tensor& x = inputs.front();
    const at::Tensor after_attention = x + attention(normalized(x, attention_norm_, options_.rms_norm_epsilon));
    return {after_attention + mlp(normalized(after_attention, mlp_norm_, options_.rms_norm_epsilon))};
  }

 private:
  /// [batch, T, heads * head_width] to [batch, T, heads, head_width].
  at::Tensor split_heads(const at::Tensor& x) const { return x.view({x.size(0), x.size(1), -1, options_.head_width}); }

  /// [batch, T, kv_heads, head_width] to [batch, heads, T, head_width]: a group's queries share their keys and values.
  at::Tensor for_each_query_head(const at::Tensor& x) const {
    const at::Tensor heads_first = x.transpose(1, 2);
    const int64_t group = options_.heads / options_.kv_heads;
    if (group == 1) return heads_first;
    return heads_first.unsqueeze(2)
        .expand({x.size(0), options_.kv_heads, group, x.size(1), options_.head_width})
        .reshape({x.size(0), options_.heads, x.size(1), options_.head_width});
  }

  at::Tensor attention(const at::Tensor& x) const {
    const at::Tensor query = rotary_->turn(split_heads(query_(x))).transpose(1, 2);
    const at::Tensor key = for_each_query_head(rotary_->turn(split_heads(key_(x))));
    const at::Tensor value = for_each_query_head(split_heads(value_(x)));
    const at::Tensor y = ops::causal_attention({query, key, value}, *training_ ? options_.attention_dropout : 0.0);
    return attention_out_(y.transpose(1, 2).reshape({x.size(0), x.size(1), -1}));
  }

  at::Tensor mlp(const at::Tensor& x) const { return down_(at::silu(gate_(x)) * up_(x)); }

  const LlamaOptions options_;
  const std::string name_;
  const std::shared_ptr<Rotary> rotary_;
  const Training training_;
  at::Tensor attention_norm_, mlp_norm_;
  Linear query_, key_, value_, attention_out_, gate_, up_, down_;
};

/// Last RMS norm, logits, loss.
class LlamaHead final : public LossLayer {
 public:
  explicit LlamaHead(const LlamaOptions& options) : options_(options) {}

  std::vector<ParameterSpec> describe() const override {
    return {{.name = "model.norm.weight", .shape = {options_.width}, .initialization = {.kind = Kind::ones}},
            {.name = "lm_head.weight",
             .shape = {options_.vocabulary, options_.width},
             .initialization = {.deviation = options_.initializer_range},
             .tied_to = options_.tied_head ? kTokenEmbedding : ""}};
  }

  void build(std::span<const at::Tensor> parameters) override {
    LOCKSTEP_CHECK_EQ(parameters.size(), 2U);
    norm_ = parameters[0];
    weight_ = parameters[1];
  }

  at::Tensor loss(const at::Tensor& hidden, const at::Tensor& labels) override {
    const at::Tensor rows = normalized(hidden, norm_, options_.rms_norm_epsilon).reshape({-1, options_.width});
    return ops::linear_cross_entropy(rows, weight_, labels.reshape({-1}));
  }

  at::Tensor logits(const at::Tensor& hidden) override {
    return ops::linear(normalized(hidden, norm_, options_.rms_norm_epsilon), weight_, {}, WeightLayout::out_in);
  }

 private:
  const LlamaOptions options_;
  at::Tensor norm_, weight_;
};

}  // namespace
}  // namespace lockstep::model

namespace lockstep::models {

LayerStack llama(const LlamaOptions& given) {
  const LlamaOptions options = model::checked(given);
  LayerStack stack{
      .max_sequence = options.positions, .vocabulary = options.vocabulary, .description = model::config_json(options)};
  const auto rotary = std::make_shared<model::Rotary>(options.head_width, options.rope_theta);
  stack.layers.push_back(std::make_shared<model::LlamaEmbedding>(options));
  for (int64_t i = 0; i < options.layers; ++i)
    stack.layers.push_back(std::make_shared<model::LlamaBlock>(options, i, rotary, stack.training));
  stack.head = std::make_shared<model::LlamaHead>(options);
  return stack;
}

}  // namespace lockstep::models
