#include "lockstep/models.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "lockstep/error.h"
#include "model/built_model.h"

namespace lockstep::model {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr models::Gpt2Options kTinyGpt2{.layers = 2, .width = 32, .heads = 2, .positions = 16, .vocabulary = 20};
constexpr models::LlamaOptions kTinyLlama{
    .layers = 2, .width = 32, .heads = 4, .kv_heads = 2, .mlp_width = 48, .positions = 16, .vocabulary = 20};

at::Tensor some_tokens() { return at::arange(24, at::kLong).remainder(20).view({2, 12}); }

int64_t parameter_count(const LayerStack& stack) {
  int64_t count = 0;
  const auto add = [&](const Layer& layer) {
    for (const ParameterSpec& spec : layer.describe())
      if (spec.tied_to.empty()) count += c10::multiply_integers(spec.shape);
  };
  for (const auto& layer : stack.layers) add(*layer);
  add(*stack.head);
  return count;
}

TEST(PresetTest, EveryPresetIsSound) {
  for (const std::string& name : models::preset_names()) {
    const LayerStack stack = models::from_preset_or_folder(name);
    EXPECT_NO_THROW(stack.check()) << name;
    EXPECT_EQ(models::weights_folder(name), "") << name;
    EXPECT_GT(stack.max_sequence, 0) << name;
  }
}

TEST(PresetTest, SizesAreThePublishedOnes) {
  EXPECT_EQ(parameter_count(models::from_preset_or_folder("gpt2-small")), 124439808);
  EXPECT_EQ(parameter_count(models::from_preset_or_folder("gpt2-xl")), 1557611200);
  EXPECT_EQ(models::from_preset_or_folder("gpt2-nano").max_sequence, 256);
  EXPECT_EQ(models::from_preset_or_folder("llama-nano").vocabulary, 256);
  EXPECT_EQ(models::from_preset_or_folder("gpt2-nano").layers.size(), 7U);  // The embedding is one.
}

TEST(PresetTest, AnUnknownNameListsThem) {
  try {
    (void)models::from_preset_or_folder("gpt9");
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("model gpt9"), HasSubstr("gpt2-nano"), HasSubstr("llama-nano")));
  }
}

TEST(ModelTest, WrongSizesAreAllNamed) {
  try {
    (void)models::gpt2({.layers = 0, .width = 30, .heads = 4});
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.problems().size(), 2U);
  }
  EXPECT_THROW((void)models::llama({.heads = 6, .kv_heads = 4, .head_width = 8}), ConfigError);
  EXPECT_THROW((void)models::llama({.heads = 4, .head_width = 7}), ConfigError);
}

TEST(ModelTest, TheTiedHeadIsTheEmbedding) {
  const BuiltModel model = build_model(models::gpt2(kTinyGpt2), nullptr);
  EXPECT_FALSE(model.parameters.contains("lm_head.weight"));
  const at::Tensor tokens = some_tokens();
  model.loss(tokens, tokens).backward();
  // A token that the input lacks has a gradient only as a class.
  const at::Tensor few = at::zeros({1, 4}, at::kLong);
  const BuiltModel other = build_model(models::gpt2(kTinyGpt2), nullptr);
  other.loss(few, few).backward();
  EXPECT_GT(other.parameters.at("transformer.wte.weight").grad()[7].abs().sum().item<double>(), 0);

  models::LlamaOptions tied = kTinyLlama;
  tied.tied_head = true;
  EXPECT_FALSE(build_model(models::llama(tied), nullptr).parameters.contains("lm_head.weight"));
  EXPECT_TRUE(build_model(models::llama(kTinyLlama), nullptr).parameters.contains("lm_head.weight"));
}

TEST(ModelTest, OwnHeadAndBiasesHaveHuggingFacesNames) {
  models::Gpt2Options gpt2 = kTinyGpt2;
  gpt2.tied_head = false;
  EXPECT_TRUE(build_model(models::gpt2(gpt2), nullptr).parameters.contains("lm_head.weight"));
  models::LlamaOptions llama = kTinyLlama;
  llama.attention_bias = llama.mlp_bias = true;
  const BuiltModel model = build_model(models::llama(llama), nullptr);
  for (const char* name : {"self_attn.q_proj.bias", "self_attn.o_proj.bias", "mlp.down_proj.bias"})
    EXPECT_TRUE(model.parameters.contains(std::string("model.layers.1.") + name)) << name;
  const at::Tensor tokens = some_tokens();
  model.loss(tokens, tokens).backward();
  for (const auto& [name, parameter] : model.parameters) EXPECT_TRUE(parameter.grad().defined()) << name;
}

TEST(ModelTest, GroupedQueriesAreRepeatedKeyValueHeads) {
  models::LlamaOptions every = kTinyLlama;
  every.kv_heads = 4;
  const BuiltModel grouped = build_model(models::llama(kTinyLlama), nullptr);
  const BuiltModel repeated = build_model(models::llama(every), nullptr);
  const at::NoGradGuard no_grad;
  for (auto& [name, parameter] : repeated.parameters) {
    at::Tensor value = grouped.parameters.at(name);
    if (name.find("k_proj") != std::string::npos || name.find("v_proj") != std::string::npos)
      value = value.view({2, 8, 32}).repeat_interleave(2, 0).view({32, 32});
    parameter.copy_(value);
  }
  const at::Tensor tokens = some_tokens();
  EXPECT_NEAR(grouped.loss(tokens, tokens).item<double>(), repeated.loss(tokens, tokens).item<double>(), 1e-6);
}

TEST(ModelTest, LongerSequencesThanPositionsAreRefused) {
  const BuiltModel model = build_model(models::gpt2(kTinyGpt2), nullptr);
  try {
    (void)model.hidden(at::zeros({1, 17}, at::kLong));
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("17 tokens: the model takes at most 16"));
  }
  EXPECT_THROW((void)model.hidden(at::zeros({1, 4}, at::kFloat)), ConfigError);
}

class DropoutTest : public testing::TestWithParam<bool> {
 protected:
  static LayerStack with_dropout(double p) {
    if (GetParam()) {
      models::LlamaOptions options = kTinyLlama;
      options.attention_dropout = p;
      return models::llama(options);
    }
    models::Gpt2Options options = kTinyGpt2;
    options.embedding_dropout = options.attention_dropout = options.residual_dropout = p;
    return models::gpt2(options);
  }
};

TEST_P(DropoutTest, TheGeneratorsSeedDecidesAndEvaluationHasNone) {
  const BuiltModel model = build_model(with_dropout(0.3), nullptr);
  const BuiltModel plain = build_model(with_dropout(0), nullptr);
  const at::Tensor tokens = some_tokens();
  const auto run = [&](uint64_t seed) {
    at::manual_seed(seed);
    return model.loss(tokens, tokens).item<float>();
  };
  const float first = run(5);
  EXPECT_EQ(run(5), first);
  EXPECT_NE(run(6), first);
  *model.stack.training = false;
  EXPECT_EQ(run(5), plain.loss(tokens, tokens).item<float>());
  *model.stack.training = true;
  EXPECT_EQ(run(5), first);
}

INSTANTIATE_TEST_SUITE_P(Models, DropoutTest, testing::Bool(),
                         [](const auto& param_info) { return param_info.param ? "llama" : "gpt2"; });

TEST(InitializationTest, FollowsHuggingFace) {
  const BuiltModel model =
      build_model(models::gpt2({.layers = 2, .width = 128, .heads = 2, .vocabulary = 256}), nullptr, 1);
  const auto deviation = [&](const char* name) { return model.parameters.at(name).detach().std().item<double>(); };
  EXPECT_NEAR(deviation("transformer.wte.weight"), 0.02, 0.0004);
  EXPECT_NEAR(deviation("transformer.h.1.attn.c_attn.weight"), 0.02, 0.0004);
  EXPECT_NEAR(deviation("transformer.h.1.mlp.c_proj.weight"), 0.01, 0.0002);  // Over the root of two additions a layer.
  EXPECT_TRUE(model.parameters.at("transformer.h.0.ln_1.weight").detach().equal(at::ones({128})));
  EXPECT_TRUE(model.parameters.at("transformer.h.0.mlp.c_fc.bias").detach().equal(at::zeros({512})));
}

TEST(InitializationTest, DependsOnSeedAndNameAlone) {
  const auto a = build_model(models::llama(kTinyLlama), nullptr, 1).parameters;
  const auto again = build_model(models::llama(kTinyLlama), nullptr, 1).parameters;
  const auto other = build_model(models::llama(kTinyLlama), nullptr, 2).parameters;
  const std::string name = "model.layers.1.mlp.up_proj.weight";
  EXPECT_TRUE(a.at(name).equal(again.at(name)));
  EXPECT_FALSE(a.at(name).equal(other.at(name)));
  EXPECT_FALSE(a.at(name).equal(a.at("model.layers.0.mlp.up_proj.weight")));
}

TEST(InitializationTest, ASliceHasTheWholesValues) {
  for (const auto kind : {Initialization::Kind::normal, Initialization::Kind::ones, Initialization::Kind::given}) {
    const ParameterSpec spec{.name = "w",
                             .shape = {200, 300},
                             .initialization = {.kind = kind},
                             .given = at::arange(60000, at::kFloat).view({300, 200}).t()};
    const at::Tensor whole = at::empty({200, 300});
    fill_initial(whole, spec, 3);
    const at::Tensor slice = at::empty({40000});
    fill_initial_slice(slice, spec, 3, 12345);
    EXPECT_TRUE(slice.equal(whole.view({-1}).narrow(0, 12345, 40000)));
  }
}

TEST(LayerStackTest, DoubleNamesAndForwardTiesAreRefused) {
  LayerStack stack = models::gpt2(kTinyGpt2);
  std::swap(stack.layers.front(), stack.layers.back());
  EXPECT_NO_THROW(stack.check());
  stack.layers.push_back(stack.layers[1]);
  EXPECT_THROW(stack.check(), ConfigError);
  stack = models::gpt2(kTinyGpt2);
  stack.layers.erase(stack.layers.begin());
  try {
    stack.check();
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("lm_head.weight is tied to transformer.wte.weight"));
  }
}

}  // namespace
}  // namespace lockstep::model
