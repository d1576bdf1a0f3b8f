#pragma once

#include <string>

#include "lockstep/models.h"

namespace lockstep::model {

class ConfigReader;

/// The model that a config.json of model_type "llama" describes.
models::LlamaOptions read_llama_options(ConfigReader& config);

/// Fills in what follows from other settings; throws ConfigError for sizes that cannot be.
models::LlamaOptions checked(models::LlamaOptions options);

/// Hugging Face's config.json.  Requires: options come from checked().
std::string config_json(const models::LlamaOptions& options);

}  // namespace lockstep::model
