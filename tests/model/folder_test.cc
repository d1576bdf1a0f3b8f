// Hugging Face folders: config.json and weights, in and out.
#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "lockstep/error.h"
#include "model/built_model.h"

namespace lockstep::model {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class FolderTest : public testing::Test {
 protected:
  FolderTest() : folder_(testing::TempDir() + "/folder_test") { std::filesystem::create_directories(folder_); }
  ~FolderTest() override { std::filesystem::remove_all(folder_); }

  void write(const std::string& name, const std::string& text) const {
    base::host_files().write_text(folder_ + "/" + name, text);
  }

  /// What from_preset_or_folder says of llama-tiny's config.json with one change.
  [[nodiscard]] std::string refusal(const std::string& model, const nlohmann::json& change) const {
    auto json = nlohmann::json::parse(base::host_files().read_text(test_data(model + "/config.json")));
    json.merge_patch(change);
    write("config.json", json.dump());
    try {
      (void)models::from_preset_or_folder(folder_);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  }

  /// What Weights::check says of these tensors against gpt2-tiny.
  [[nodiscard]] std::string weights_refusal(const std::vector<tensor::NamedTensor>& tensors) const {
    save_weights(folder_, "", tensors);
    try {
      load_weights(folder_).check(models::from_preset_or_folder(test_data("gpt2-tiny")));
    } catch (const CheckpointError& error) {
      return error.what();
    }
    return "";
  }

  static std::vector<tensor::NamedTensor> gpt2_tensors() {
    const tensor::SafetensorsFile file(base::host_files(), test_data("gpt2-tiny/model.safetensors"));
    std::vector<tensor::NamedTensor> tensors;
    for (const auto& [name, entry] : file.entries()) tensors.push_back({name, file.read(name)});
    return tensors;
  }

  std::string folder_;
};

TEST_F(FolderTest, AModelSurvivesItsOwnFolder) {
  const auto options = models::LlamaOptions{.layers = 2,
                                            .width = 32,
                                            .heads = 4,
                                            .kv_heads = 2,
                                            .head_width = 10,
                                            .mlp_width = 48,
                                            .positions = 16,
                                            .vocabulary = 20,
                                            .rms_norm_epsilon = 1e-4,
                                            .rope_theta = 500,
                                            .attention_bias = true,
                                            .tied_head = true};
  const models::Gpt2Options gpt2{.layers = 1, .width = 8, .heads = 2, .positions = 4, .vocabulary = 5, .mlp_width = 24};
  for (const LayerStack& stack : {models::llama(options), models::gpt2(gpt2)}) {
    const BuiltModel model = build_model(stack, nullptr, 7);
    std::vector<tensor::NamedTensor> tensors;
    for (const auto& [name, parameter] : model.parameters) tensors.push_back({name, parameter.detach()});
    save_weights(folder_, stack.description, tensors);
    EXPECT_EQ(models::weights_folder(folder_), folder_);

    const LayerStack read = models::from_preset_or_folder(folder_);
    EXPECT_EQ(read.description, stack.description);
    EXPECT_EQ(read.max_sequence, stack.max_sequence);
    const Weights weights = load_weights(folder_);
    weights.check(read);
    const BuiltModel again = build_model(read, &weights);
    const at::Tensor tokens = at::arange(8, at::kLong).remainder(5).view({2, 4});
    EXPECT_EQ(again.loss(tokens, tokens).item<float>(), model.loss(tokens, tokens).item<float>());
  }
}

TEST_F(FolderTest, DescriptionKeepsTheFoldersConfig) {
  const std::string text = base::host_files().read_text(test_data("gpt2-tiny/config.json"));
  EXPECT_EQ(models::from_preset_or_folder(test_data("gpt2-tiny")).description, text);
  auto json = nlohmann::json::parse(text);
  json["dtype"] = "bfloat16";  // Weights are written in fp32.
  write("config.json", json.dump());
  EXPECT_EQ(nlohmann::json::parse(models::from_preset_or_folder(folder_).description)["dtype"], "float32");
}

TEST_F(FolderTest, WhatIsNotImplementedIsNamed) {
  EXPECT_THAT(refusal("llama-tiny", {{"rope_parameters", {{"rope_type", "llama3"}, {"factor", 8.0}}}}),
              AllOf(HasSubstr("config.json: rope_parameters.rope_type: \"llama3\" is not implemented"),
                    HasSubstr("\"default\"")));
  EXPECT_THAT(refusal("llama-tiny", {{"rope_scaling", {{"type", "linear"}, {"factor", 2.0}}}}),
              HasSubstr("rope_scaling.type: \"linear\" is not implemented"));
  EXPECT_THAT(refusal("llama-tiny", {{"rope_scaling", {{"factor", 2.0}}}}), HasSubstr("rope_scaling.factor"));
  EXPECT_THAT(refusal("llama-tiny", {{"hidden_act", "gelu"}}), HasSubstr("hidden_act: \"gelu\" is not implemented"));
  EXPECT_THAT(refusal("llama-tiny", {{"sliding_window", 128}}), HasSubstr("sliding_window: 128 is not implemented"));
  EXPECT_THAT(refusal("llama-tiny", {{"model_type", "mistral"}}), HasSubstr("model_type: \"mistral\""));
  EXPECT_THAT(refusal("gpt2-tiny", {{"reorder_and_upcast_attn", true}}), HasSubstr("reorder_and_upcast_attn: true"));
  EXPECT_THAT(refusal("gpt2-tiny", {{"scale_attn_by_inverse_layer_idx", true}}), HasSubstr("scale_attn_by_inverse"));
  EXPECT_THAT(refusal("gpt2-tiny", {{"scale_attn_weights", false}}), HasSubstr("scale_attn_weights: false"));
  EXPECT_THAT(refusal("gpt2-tiny", {{"activation_function", "relu"}}), HasSubstr("activation_function: \"relu\""));
}

TEST_F(FolderTest, EveryWrongSettingIsNamed) {
  EXPECT_THAT(refusal("gpt2-tiny", {{"n_layer", "four"}, {"n_embd", -1}, {"attn_pdrop", 1.5}, {"vocab_size", 2.5}}),
              AllOf(HasSubstr("n_layer: expected an integer of at least 1, got \"four\""), HasSubstr("n_embd"),
                    HasSubstr("attn_pdrop: expected a probability"), HasSubstr("vocab_size")));
  EXPECT_THAT(refusal("gpt2-tiny", {{"n_head", 5}}), HasSubstr("n_embd: 64 is not a multiple of n_head = 5"));
  EXPECT_THAT(refusal("llama-tiny", {{"num_key_value_heads", 3}}), HasSubstr("num_key_value_heads"));
  write("config.json", "{");
  EXPECT_THROW((void)models::from_preset_or_folder(folder_), ConfigError);
}

TEST_F(FolderTest, BothSpellingsOfRotarySettingsAreOne) {
  EXPECT_EQ(refusal("llama-tiny", {{"rope_parameters", nullptr}, {"rope_theta", 700.0}, {"rope_scaling", nullptr}}),
            "");
  const Weights weights = load_weights(test_data("llama-tiny"));
  const Samples samples = corpus_samples(1);
  const auto loss = [&] {
    return build_model(models::from_preset_or_folder(folder_), &weights)
        .loss(samples.input, samples.target)
        .item<float>();
  };
  const float old_spelling = loss();
  EXPECT_EQ(refusal("llama-tiny", {{"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 700.0}}}}), "");
  EXPECT_EQ(loss(), old_spelling);
  EXPECT_EQ(refusal("llama-tiny", nlohmann::json::object()), "");
  EXPECT_NE(loss(), old_spelling);
}

TEST_F(FolderTest, HuggingFacesDefaultsHold) {
  write("config.json", R"({"model_type": "gpt2"})");
  const LayerStack stack = models::from_preset_or_folder(folder_);
  EXPECT_EQ(stack.layers.size(), 13U);
  EXPECT_EQ(stack.vocabulary, 50257);
  EXPECT_EQ(models::weights_folder(folder_), "");
}

TEST_F(FolderTest, OtherFormatsOfWeightsAreNotPassedOver) {
  write("config.json", R"({"model_type": "gpt2"})");
  write("pytorch_model.bin", "");
  EXPECT_THROW((void)models::weights_folder(folder_), CheckpointError);
}

TEST_F(FolderTest, BuffersAndTiedCopiesAreIgnored) {
  auto tensors = gpt2_tensors();
  tensors.push_back({"transformer.h.0.attn.bias", at::ones({1, 1, 64, 64})});
  tensors.push_back({"lm_head.weight", at::ones({256, 64})});
  EXPECT_EQ(weights_refusal(tensors), "");
}

TEST_F(FolderTest, NamesWithoutThePrefixAreTaken) {
  auto tensors = gpt2_tensors();
  for (auto& tensor : tensors) tensor.name = tensor.name.substr(std::string("transformer.").size());
  EXPECT_EQ(weights_refusal(tensors), "");
  const at::Tensor into = at::empty({256, 64});
  load_weights(folder_).copy_to("transformer.wte.weight", into);
  EXPECT_GT(into.std().item<double>(), 0.01);
}

TEST_F(FolderTest, MissingUnexpectedAndMisshapenWeightsAreNamed) {
  auto tensors = gpt2_tensors();
  tensors[3].name = "transformer.h.0.attn.c_proj.wait";
  tensors[0].values = at::ones({5});
  EXPECT_THAT(weights_refusal(tensors),
              AllOf(HasSubstr("weight transformer.h.0.attn.c_proj.weight is missing"),
                    HasSubstr("weight transformer.h.0.attn.c_proj.wait is none of the model's"),
                    HasSubstr("weight transformer.h.0.attn.c_attn.bias has shape [5]; the model's is [192]")));
  EXPECT_THAT(weights_refusal({{"x", at::ones({1})}}), HasSubstr("more; is config.json of another model?"));
  const Weights weights = load_weights(folder_);
  EXPECT_THROW(weights.copy_to("transformer.wte.weight", at::empty({1})), CheckpointError);
}

TEST_F(FolderTest, ShardsAreReadByTheirIndex) {
  const auto tensors = gpt2_tensors();
  nlohmann::json index;
  std::vector<std::vector<tensor::NamedTensor>> shards(2);
  for (size_t i = 0; i < tensors.size(); ++i) {
    shards[i % 2].push_back(tensors[i]);
    index["weight_map"][tensors[i].name] = i % 2 == 0 ? "a.safetensors" : "b.safetensors";
  }
  tensor::write_safetensors(base::host_files(), folder_ + "/a.safetensors", shards[0]);
  tensor::write_safetensors(base::host_files(), folder_ + "/b.safetensors", shards[1]);
  write("model.safetensors.index.json", index.dump());
  EXPECT_NO_THROW(load_weights(folder_).check(models::from_preset_or_folder(test_data("gpt2-tiny"))));

  index["weight_map"][tensors[1].name] = "a.safetensors";
  write("model.safetensors.index.json", index.dump());
  EXPECT_THROW((void)load_weights(folder_), CheckpointError);
  index["weight_map"][tensors[1].name] = "../a.safetensors";
  write("model.safetensors.index.json", index.dump());
  EXPECT_THROW((void)load_weights(folder_), CheckpointError);
  std::filesystem::remove(folder_ + "/b.safetensors");
  index["weight_map"][tensors[1].name] = "b.safetensors";
  write("model.safetensors.index.json", index.dump());
  EXPECT_THROW((void)load_weights(folder_), IoError);
}

TEST_F(FolderTest, AFolderWithoutWeightsIsAnIoError) { EXPECT_THROW((void)load_weights(folder_), IoError); }

}  // namespace
}  // namespace lockstep::model
