#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "lockstep/error.h"
#include "model/config_reader.h"
#include "model/llama.h"

namespace lockstep::model {
namespace {

constexpr double kDefaultTheta = 10000;

/// Takes rope_type (older files: type) and rope_theta from one of the two blocks that may hold them.
void read_rope_block(ConfigReader& config, const char* block, double& theta) {
  const auto found = config.json().find(block);
  if (found == config.json().end() || found->is_null()) return;
  if (!found->is_object()) return config.problem(block, fmt::format("expected an object, got {}", found->dump()));
  for (const auto& [key, value] : found->items()) {
    const std::string path = fmt::format("{}.{}", block, key);
    if (key == "rope_type" || key == "type") {
      if (value != "default")
        config.problem(path, fmt::format("{} is not implemented; implemented: \"default\"", value.dump()));
    } else if (key == "rope_theta") {
      if (value.is_number() && value.get<double>() > 0)
        theta = value.get<double>();
      else
        config.problem(path, fmt::format("expected a positive number, got {}", value.dump()));
    } else if (key == "partial_rotary_factor") {
      if (value != 1.0) config.problem(path, fmt::format("{} is not implemented; implemented: 1.0", value.dump()));
    } else if (!found->contains("rope_type") && !found->contains("type")) {
      // Without a type the block would be taken for the default one; a setting of another type must not pass in
      // silence.
      config.problem(path, "is not implemented; implemented: \"rope_type\": \"default\" with \"rope_theta\"");
    }
  }
}

}  // namespace

models::LlamaOptions read_llama_options(ConfigReader& config) {
  // Where a setting is absent, Hugging Face's default holds.
  models::LlamaOptions options{.layers = config.integer("num_hidden_layers", 32),
                               .width = config.integer("hidden_size", 4096),
                               .heads = config.integer("num_attention_heads", 32),
                               .kv_heads = config.integer("num_key_value_heads", 0),
                               .head_width = config.integer("head_dim", 0),
                               .mlp_width = config.integer("intermediate_size", 11008),
                               .positions = config.integer("max_position_embeddings", 2048),
                               .vocabulary = config.integer("vocab_size", 32000),
                               .rms_norm_epsilon = config.number("rms_norm_eps", 1e-6),
                               .rope_theta = config.number("rope_theta", kDefaultTheta),
                               .attention_dropout = config.probability("attention_dropout", 0),
                               .initializer_range = config.number("initializer_range", 0.02),
                               .attention_bias = config.flag("attention_bias", false),
                               .mlp_bias = config.flag("mlp_bias", false),
                               .tied_head = config.flag("tie_word_embeddings", false)};
  read_rope_block(config, "rope_scaling", options.rope_theta);
  read_rope_block(config, "rope_parameters", options.rope_theta);
  config.require("hidden_act", {"\"silu\""});
  config.require("pretraining_tp", {"1"});
  config.require("partial_rotary_factor", {"1.0"});
  config.require("sliding_window", {});
  config.require("use_sliding_window", {"false"});
  config.require("quantization_config", {});
  const auto types = config.json().find("layer_types");
  if (types != config.json().end() && types->is_array())
    for (const auto& type : *types)
      if (type != "full_attention") {
        config.problem("layer_types",
                       fmt::format("{} is not implemented; implemented: \"full_attention\"", type.dump()));
        break;
      }
  const int64_t kv_heads = options.kv_heads == 0 ? options.heads : options.kv_heads;
  if (options.heads % kv_heads != 0)
    config.problem("num_key_value_heads",
                   fmt::format("num_attention_heads = {} is not a multiple of {}", options.heads, kv_heads));
  if (options.head_width == 0 && options.width % options.heads != 0)
    config.problem("hidden_size", fmt::format("{} is not a multiple of num_attention_heads = {}; give head_dim",
                                              options.width, options.heads));
  return options;
}

models::LlamaOptions checked(models::LlamaOptions options) {
  std::vector<std::string> problems;
  const auto positive = [&](const char* name, int64_t value) {
    if (value <= 0) problems.push_back(fmt::format("llama: {} = {}: must be positive", name, value));
  };
  positive("layers", options.layers);
  positive("width", options.width);
  positive("heads", options.heads);
  if (options.kv_heads == 0) options.kv_heads = options.heads;
  positive("kv_heads", options.kv_heads);
  positive("mlp_width", options.mlp_width);
  positive("positions", options.positions);
  positive("vocabulary", options.vocabulary);
  if (options.heads > 0 && options.kv_heads > 0 && options.heads % options.kv_heads != 0)
    problems.push_back(
        fmt::format("llama: heads = {} is not a multiple of kv_heads = {}", options.heads, options.kv_heads));
  if (options.head_width == 0 && options.heads > 0) {
    if (options.width % options.heads != 0)
      problems.push_back(
          fmt::format("llama: width {} is not a multiple of heads = {}; set head_width", options.width, options.heads));
    options.head_width = options.width / options.heads;
  }
  if (options.head_width <= 0 || options.head_width % 2 != 0)
    problems.push_back(fmt::format("llama: head_width = {}: rotary positions need an even one", options.head_width));
  if (!(options.attention_dropout >= 0 && options.attention_dropout < 1))
    problems.push_back(
        fmt::format("llama: attention_dropout = {}: must be at least 0 and below 1", options.attention_dropout));
  if (!(options.rope_theta > 0))
    problems.push_back(fmt::format("llama: rope_theta = {}: must be positive", options.rope_theta));
  if (!problems.empty()) throw ConfigError(std::move(problems));
  return options;
}

std::string config_json(const models::LlamaOptions& options) {
  const nlohmann::ordered_json json{{"architectures", {"LlamaForCausalLM"}},
                                    {"model_type", "llama"},
                                    {"num_hidden_layers", options.layers},
                                    {"hidden_size", options.width},
                                    {"num_attention_heads", options.heads},
                                    {"num_key_value_heads", options.kv_heads},
                                    {"head_dim", options.head_width},
                                    {"intermediate_size", options.mlp_width},
                                    {"max_position_embeddings", options.positions},
                                    {"vocab_size", options.vocabulary},
                                    {"hidden_act", "silu"},
                                    {"rms_norm_eps", options.rms_norm_epsilon},
                                    // Both spellings: readers older than rope_parameters take the first.
                                    {"rope_theta", options.rope_theta},
                                    {"rope_parameters", {{"rope_theta", options.rope_theta}, {"rope_type", "default"}}},
                                    {"attention_bias", options.attention_bias},
                                    {"mlp_bias", options.mlp_bias},
                                    {"attention_dropout", options.attention_dropout},
                                    {"initializer_range", options.initializer_range},
                                    {"tie_word_embeddings", options.tied_head},
                                    {"bos_token_id", nullptr},
                                    {"eos_token_id", nullptr},
                                    {"dtype", "float32"}};
  return json.dump(2) + "\n";
}

}  // namespace lockstep::model
