#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/export.h"
#include "lockstep/layer.h"

namespace torch::nn {
class Module;
}

namespace LOCKSTEP_API lockstep {
namespace models {

/// GPT-2 as Hugging Face defines it.  Weight names are its names: "transformer.h.0.attn.c_attn.weight".
struct Gpt2Options {
  int64_t layers = 12;
  int64_t width = 768;
  int64_t heads = 12;
  int64_t positions = 1024;  ///< Longest sequence.
  int64_t vocabulary = 50257;
  int64_t mlp_width = 0;  ///< 0: four times the width.
  double layer_norm_epsilon = 1e-5;
  double embedding_dropout = 0;
  double attention_dropout = 0;
  double residual_dropout = 0;
  double initializer_range = 0.02;  ///< Standard deviation; projections into the residual: over sqrt(2 * layers).
  bool tied_head = true;            ///< The head's weight is transformer.wte.weight.
};

/// Llama as Hugging Face defines it.  Weight names are its names: "model.layers.0.self_attn.q_proj.weight".
struct LlamaOptions {
  int64_t layers = 16;
  int64_t width = 2048;
  int64_t heads = 32;
  int64_t kv_heads = 0;    ///< Key-value heads, which groups of query heads share; 0: one for each query head.
  int64_t head_width = 0;  ///< 0: width / heads.
  int64_t mlp_width = 8192;
  int64_t positions = 2048;  ///< Longest sequence.
  int64_t vocabulary = 32000;
  double rms_norm_epsilon = 1e-5;
  double rope_theta = 10000;
  double attention_dropout = 0;
  double initializer_range = 0.02;
  bool attention_bias = false;
  bool mlp_bias = false;
  bool tied_head = false;  ///< The head's weight is model.embed_tokens.weight.
};

/// A layer for the embedding, one a block, and the head.  Nothing is allocated.  Throws ConfigError.
LayerStack gpt2(const Gpt2Options& options);
LayerStack llama(const LlamaOptions& options);

/// "gpt2-nano", ...: sizes with a name.  None of them has dropout.
std::vector<std::string> preset_names();

/// A preset, or a folder that holds Hugging Face's config.json.  Throws ConfigError listing the presets, or every
/// setting of config.json that is wrong or not implemented; IoError.
LayerStack from_preset_or_folder(const std::string& name);

/// The folder whose weights a model starts from; empty for a preset and for a folder without weights.
/// Throws CheckpointError where the weights are in a format that is not read.
std::string weights_folder(const std::string& name);

/// input and target of one micro-batch to its mean loss, a scalar in fp32.
using ModuleLoss = std::function<at::Tensor(const at::Tensor& input, const at::Tensor& target)>;

struct ModuleOptions {
  /// Names or prefixes of names ("encoder", "decoder.layers.0") whose parameters form a unit each; the longest that
  /// fits counts.  Others go by the container's index, "encoder.layers.0", or their first name, "embedding".
  std::vector<std::string> units{};
};

/// Any module, unmodified, as one layer of several units, which are gathered as operators take them where parameters
/// are sharded.  Its parameters must be in fp32 on the CPU; they stay the leaves of the graph
/// and, once an engine was made, view the engine's storage, values kept.  The module is switched between training and
/// evaluation as the engine goes.  Throws ConfigError.
LayerStack wrap_module(std::shared_ptr<torch::nn::Module> module, ModuleLoss loss, const ModuleOptions& options = {});

}  // namespace models
}  // namespace lockstep
