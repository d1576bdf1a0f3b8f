#pragma once

#include <string>

#include "lockstep/models.h"

namespace lockstep::model {

class ConfigReader;

/// The model that a config.json of model_type "gpt2" describes.
models::Gpt2Options read_gpt2_options(ConfigReader& config);

/// Throws ConfigError for sizes that cannot be.
void check(const models::Gpt2Options& options);

/// Hugging Face's config.json.
std::string config_json(const models::Gpt2Options& options);

}  // namespace lockstep::model
