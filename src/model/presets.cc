#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <nlohmann/json.hpp>
#include <variant>

#include "base/files.h"
#include "lockstep/error.h"
#include "lockstep/models.h"
#include "model/config_reader.h"
#include "model/gpt2.h"
#include "model/llama.h"

namespace lockstep::models {
namespace {

using Options = std::variant<Gpt2Options, LlamaOptions>;

struct Preset {
  const char* name;
  Options options;
};

std::vector<Preset> presets() {
  return {
      {"gpt2-nano", Gpt2Options{.layers = 6, .width = 384, .heads = 6, .positions = 256, .vocabulary = 256}},
      {"gpt2-demo", Gpt2Options{.layers = 4, .width = 256, .heads = 4, .positions = 256, .vocabulary = 256}},
      {"gpt2-small", Gpt2Options{}},
      {"gpt2-medium", Gpt2Options{.layers = 24, .width = 1024, .heads = 16}},
      {"gpt2-large", Gpt2Options{.layers = 36, .width = 1280, .heads = 20}},
      {"gpt2-xl", Gpt2Options{.layers = 48, .width = 1600, .heads = 25}},
      {"llama-nano", LlamaOptions{.layers = 6,
                                  .width = 384,
                                  .heads = 6,
                                  .kv_heads = 2,
                                  .mlp_width = 1024,
                                  .positions = 256,
                                  .vocabulary = 256}},
  };
}

LayerStack make(const Options& options) {
  if (const auto* gpt2_options = std::get_if<Gpt2Options>(&options)) return gpt2(*gpt2_options);
  return llama(std::get<LlamaOptions>(options));
}

Options read_options(const std::string& model_type, model::ConfigReader& config) {
  if (model_type == "llama") return model::read_llama_options(config);
  return model::read_gpt2_options(config);
}

/// The folder's own config.json as the model's description, so that settings which do not concern training stay; the
/// dtype becomes the one that weights are written in.
std::string description(const std::string& text, nlohmann::ordered_json json) {
  bool changed = false;
  for (const char* key : {"dtype", "torch_dtype"}) {
    if (!json.contains(key) || json[key] == "float32") continue;
    json[key] = "float32";
    changed = true;
  }
  return changed ? json.dump(2) + "\n" : text;
}

LayerStack from_folder(const std::string& path) {
  const std::string text = base::host_files().read_text(path);
  nlohmann::ordered_json ordered;
  try {
    ordered = nlohmann::ordered_json::parse(text);
  } catch (const nlohmann::json::exception& error) {
    throw ConfigError(fmt::format("{}: not JSON: {}", path, error.what()));
  }
  if (!ordered.is_object()) throw ConfigError(fmt::format("{}: expected an object", path));
  const nlohmann::json json = ordered;
  model::ConfigReader config(path, json);
  const std::string model_type = config.text("model_type", "");
  if (model_type != "gpt2" && model_type != "llama")
    config.problem("model_type",
                   fmt::format("\"{}\" is not implemented; implemented: \"gpt2\", \"llama\"", model_type));
  config.finish();
  const Options options = read_options(model_type, config);
  config.finish();
  LayerStack stack = make(options);
  stack.description = description(text, std::move(ordered));
  return stack;
}

bool is_preset(const std::string& name) {
  const auto names = preset_names();
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const Preset& preset : presets()) names.emplace_back(preset.name);
  return names;
}

LayerStack from_preset_or_folder(const std::string& name) {
  for (const Preset& preset : presets())
    if (name == preset.name) return make(preset.options);
  const std::string path = name + "/config.json";
  if (!base::host_files().exists(path))
    throw ConfigError(fmt::format("model {}: neither a preset nor a folder with a config.json; the presets are {}",
                                  name, fmt::join(preset_names(), ", ")));
  return from_folder(path);
}

std::string weights_folder(const std::string& name) {
  if (is_preset(name)) return {};
  base::FileSystem& files = base::host_files();
  for (const char* file : {"/model.safetensors", "/model.safetensors.index.json"})
    if (files.exists(name + file)) return name;
  for (const char* file : {"pytorch_model.bin", "pytorch_model.bin.index.json", "model.ckpt.index", "tf_model.h5"})
    if (files.exists(name + "/" + file))
      throw CheckpointError(
          fmt::format("{}/{}: only weights in model.safetensors are read; convert the file, or start "
                      "without its weights by --from-scratch",
                      name, file));
  return {};
}

}  // namespace lockstep::models
