#pragma once

#include <span>
#include <string>

#include "lockstep/layer.h"
#include "plan/parameter_table.h"

namespace lockstep::zero {

/// Every parameter of the model as plain values, a unit per layer.  no_decay: names, or patterns with '*', of
/// parameters that are exempt from weight decay.  Throws ConfigError as LayerStack::check() does.
plan::ParameterTable make_parameter_table(const LayerStack& model, std::span<const std::string> no_decay);

/// True where `name` matches `pattern`, in which '*' stands for any run of characters.
bool matches(std::string_view name, std::string_view pattern);

}  // namespace lockstep::zero
