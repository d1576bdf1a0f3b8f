#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "lockstep/error.h"
#include "model/config_reader.h"
#include "model/gpt2.h"

namespace lockstep::model {
namespace {

constexpr int64_t kGpt2Vocabulary = 50257;

}  // namespace

models::Gpt2Options read_gpt2_options(ConfigReader& config) {
  // Where a setting is absent, Hugging Face's default holds.
  models::Gpt2Options options{.layers = config.integer("n_layer", 12),
                              .width = config.integer("n_embd", 768),
                              .heads = config.integer("n_head", 12),
                              .positions = config.integer("n_positions", 1024),
                              .vocabulary = config.integer("vocab_size", kGpt2Vocabulary),
                              .mlp_width = config.integer("n_inner", 0),
                              .layer_norm_epsilon = config.number("layer_norm_epsilon", 1e-5),
                              .embedding_dropout = config.probability("embd_pdrop", 0.1),
                              .attention_dropout = config.probability("attn_pdrop", 0.1),
                              .residual_dropout = config.probability("resid_pdrop", 0.1),
                              .initializer_range = config.number("initializer_range", 0.02),
                              .tied_head = config.flag("tie_word_embeddings", true)};
  config.require("activation_function", {"\"gelu_new\"", "\"gelu_pytorch_tanh\""});  // Two names of one function.
  config.require("scale_attn_weights", {"true"});
  config.require("scale_attn_by_inverse_layer_idx", {"false"});
  config.require("reorder_and_upcast_attn", {"false"});
  config.require("add_cross_attention", {"false"});
  config.require("quantization_config", {});
  if (options.width % options.heads != 0)
    config.problem("n_embd", fmt::format("{} is not a multiple of n_head = {}", options.width, options.heads));
  return options;
}

void check(const models::Gpt2Options& options) {
  std::vector<std::string> problems;
  const auto positive = [&](const char* name, int64_t value) {
    if (value <= 0) problems.push_back(fmt::format("gpt2: {} = {}: must be positive", name, value));
  };
  const auto probability = [&](const char* name, double value) {
    if (!(value >= 0 && value < 1))
      problems.push_back(fmt::format("gpt2: {} = {}: must be at least 0 and below 1", name, value));
  };
  positive("layers", options.layers);
  positive("width", options.width);
  positive("heads", options.heads);
  positive("positions", options.positions);
  positive("vocabulary", options.vocabulary);
  probability("embedding_dropout", options.embedding_dropout);
  probability("attention_dropout", options.attention_dropout);
  probability("residual_dropout", options.residual_dropout);
  if (options.mlp_width < 0) problems.push_back(fmt::format("gpt2: mlp_width = {}: is negative", options.mlp_width));
  if (options.heads > 0 && options.width % options.heads != 0)
    problems.push_back(fmt::format("gpt2: width {} is not a multiple of heads = {}", options.width, options.heads));
  if (!problems.empty()) throw ConfigError(std::move(problems));
}

std::string config_json(const models::Gpt2Options& options) {
  nlohmann::ordered_json json{{"architectures", {"GPT2LMHeadModel"}},
                              {"model_type", "gpt2"},
                              {"n_layer", options.layers},
                              {"n_embd", options.width},
                              {"n_head", options.heads},
                              {"n_positions", options.positions},
                              {"n_inner", nullptr},
                              {"vocab_size", options.vocabulary},
                              {"activation_function", "gelu_new"},
                              {"layer_norm_epsilon", options.layer_norm_epsilon},
                              {"embd_pdrop", options.embedding_dropout},
                              {"attn_pdrop", options.attention_dropout},
                              {"resid_pdrop", options.residual_dropout},
                              {"initializer_range", options.initializer_range},
                              {"tie_word_embeddings", options.tied_head},
                              // Hugging Face's defaults name GPT-2's own last token, which other vocabularies lack.
                              {"bos_token_id", nullptr},
                              {"eos_token_id", nullptr},
                              {"dtype", "float32"}};
  if (options.mlp_width != 0) json["n_inner"] = options.mlp_width;
  if (options.vocabulary == kGpt2Vocabulary) json["bos_token_id"] = json["eos_token_id"] = kGpt2Vocabulary - 1;
  return json.dump(2) + "\n";
}

}  // namespace lockstep::model
