#include "model/weights.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <nlohmann/json.hpp>
#include <set>

#include "lockstep/error.h"
#include "lockstep/layer.h"

namespace lockstep::model {
namespace {

constexpr const char* kSingleFile = "/model.safetensors";
constexpr const char* kIndexFile = "/model.safetensors.index.json";
constexpr size_t kMostProblems = 10;  // Of the wrong model every weight differs.

/// Tensor name to the file that holds it.
std::map<std::string, std::string> read_index(const std::string& folder) {
  const std::string path = folder + kIndexFile;
  const nlohmann::json index = nlohmann::json::parse(base::host_files().read_text(path), nullptr, false);
  if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object())
    throw CheckpointError(fmt::format("{}: expected an object \"weight_map\"", path));
  std::map<std::string, std::string> file_of;
  for (const auto& [tensor, file] : index["weight_map"].items()) {
    // A plain name: an index from elsewhere must not point outside its folder.
    if (!file.is_string() || file.get<std::string>().empty() || file.get<std::string>().find('/') != std::string::npos)
      throw CheckpointError(fmt::format("{}: weight_map: {}: expected a file name, got {}", path, tensor, file.dump()));
    file_of[tensor] = file.get<std::string>();
  }
  return file_of;
}

/// Buffers of older Hugging Face models: causal masks and rotary frequencies.
bool is_buffer(const std::string& name) {
  return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias") || name.ends_with(".rotary_emb.inv_freq");
}

}  // namespace

Weights load_weights(const std::string& folder) {
  Weights weights;
  weights.folder_ = folder;
  const auto open = [&](const std::string& name) {
    const std::string path = fmt::format("{}/{}", folder, name);
    return weights.files_.emplace_back(std::make_shared<tensor::SafetensorsFile>(base::host_files(), path)).get();
  };
  base::FileSystem& files = base::host_files();
  if (files.exists(folder + kSingleFile)) {
    const tensor::SafetensorsFile* file = open(kSingleFile + 1);
    for (const auto& [name, entry] : file->entries()) weights.file_of_[name] = file;
    return weights;
  }
  if (!files.exists(folder + kIndexFile))
    throw IoError(fmt::format("{}: holds neither model.safetensors nor model.safetensors.index.json", folder));
  std::map<std::string, const tensor::SafetensorsFile*> opened;
  for (const auto& [name, file_name] : read_index(folder)) {
    const tensor::SafetensorsFile*& file = opened[file_name];
    if (file == nullptr) file = open(file_name);
    if (!file->entries().contains(name))
      throw CheckpointError(
          fmt::format("{}: has no tensor {}, which {} says it has", file->path(), name, kIndexFile + 1));
    weights.file_of_[name] = file;
  }
  return weights;
}

Weights::Found Weights::find(const std::string& name) const {
  const Found exact = file_of_.find(name);
  if (exact != file_of_.end()) return exact;
  for (const std::string_view prefix : {"transformer.", "model."})
    if (name.starts_with(prefix)) return file_of_.find(name.substr(prefix.size()));
  return file_of_.end();
}

void Weights::check(const LayerStack& model) const {
  std::vector<std::string> problems;
  std::set<std::string> used;
  const auto check_layer = [&](const Layer& layer) {
    for (const ParameterSpec& spec : layer.describe()) {
      const Found found = find(spec.name);
      if (found != file_of_.end()) used.insert(found->first);
      if (!spec.tied_to.empty()) continue;
      if (found == file_of_.end()) {
        problems.push_back(fmt::format("{}: weight {} is missing", folder_, spec.name));
        continue;
      }
      const auto& shape = found->second->entries().at(found->first).shape;
      if (shape != spec.shape)
        problems.push_back(fmt::format("{}: weight {} has shape [{}]; the model's is [{}]", folder_, spec.name,
                                       fmt::join(shape, ", "), fmt::join(spec.shape, ", ")));
    }
  };
  for (const auto& layer : model.layers) check_layer(*layer);
  check_layer(*model.head);
  for (const auto& [name, file] : file_of_)
    if (!used.contains(name) && !is_buffer(name))
      problems.push_back(fmt::format("{}: weight {} is none of the model's", folder_, name));
  if (problems.empty()) return;
  if (problems.size() > kMostProblems) {
    const size_t more = problems.size() - kMostProblems;
    problems.resize(kMostProblems);
    problems.push_back(
        fmt::format("{}: and {} more; is config.json of another model? --from-scratch starts without "
                    "the folder's weights",
                    folder_, more));
  }
  throw CheckpointError(fmt::format("{}", fmt::join(problems, "\n")));
}

void Weights::copy_to(const std::string& name, const at::Tensor& into) const {
  const Found found = find(name);
  if (found == file_of_.end())
    throw CheckpointError(
        fmt::format("{}: weight {} is missing; --from-scratch starts without the folder's weights", folder_, name));
  const auto& [key, file] = *found;
  const auto& shape = file->entries().at(key).shape;
  if (into.sizes() != at::IntArrayRef(shape))
    throw CheckpointError(fmt::format("{}: weight {} has shape [{}]; the model's is [{}]", file->path(), name,
                                      fmt::join(shape, ", "), fmt::join(into.sizes().vec(), ", ")));
  into.copy_(file->read_fp32(key));
}

void save_weights(const std::string& folder, const std::string& config_json,
                  const std::vector<tensor::NamedTensor>& weights) {
  base::FileSystem& files = base::host_files();
  files.create_directories(folder);
  if (!config_json.empty()) files.write_text(folder + "/config.json", config_json);
  tensor::write_safetensors(files, folder + kSingleFile, weights, {{"format", "pt"}});
}

}  // namespace lockstep::model
