#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tensor/safetensors.h"

namespace lockstep {
struct LayerStack;
}

namespace lockstep::model {

/// The weights of a Hugging Face folder: model.safetensors or its sharded index, mapped.  Thread-safe.
class Weights {
 public:
  /// Throws CheckpointError with one line for every weight that the model has and the folder has not, that the folder
  /// has and the model has not, or whose shape differs.  Buffers that Hugging Face stores beside weights, and the copy
  /// of a tied head, do not count.
  void check(const LayerStack& model) const;

  /// Copies one parameter's values into a contiguous fp32 tensor.  Names are tried as they are and without the model's
  /// prefix ("transformer.", "model.").  Throws CheckpointError: no such tensor, another shape or kind of number.
  void copy_to(const std::string& name, const at::Tensor& into) const;

 private:
  friend Weights load_weights(const std::string& folder);
  using Found = std::map<std::string, const tensor::SafetensorsFile*>::const_iterator;

  [[nodiscard]] Found find(const std::string& name) const;

  std::string folder_;
  std::vector<std::shared_ptr<tensor::SafetensorsFile>> files_;  // Shared by the copies, which are read-only.
  std::map<std::string, const tensor::SafetensorsFile*> file_of_;
};

/// Throws IoError, CheckpointError.
Weights load_weights(const std::string& folder);

/// Writes a Hugging Face folder: config.json where it is not empty, and model.safetensors.  Throws IoError.
void save_weights(const std::string& folder, const std::string& config_json,
                  const std::vector<tensor::NamedTensor>& weights);

}  // namespace lockstep::model
