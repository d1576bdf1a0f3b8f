#include "bench_flops.h"

namespace lockstep::cli {
namespace {

int64_t matrix_numel(const Layer& layer) {
  int64_t numel = 0;
  for (const ParameterSpec& spec : layer.describe())
    if (spec.shape.size() == 2) numel += spec.shape[0] * spec.shape[1];
  return numel;
}

}  // namespace

double step_flops(const LayerStack& model, int64_t sequences, int64_t length) {
  int64_t weights = matrix_numel(*model.head);
  for (size_t i = 1; i < model.layers.size(); ++i) weights += matrix_numel(*model.layers[i]);
  int64_t width = 0;
  for (const ParameterSpec& spec : model.head->describe())
    if (spec.shape.size() == 2) width = spec.shape[1];
  const auto tokens = static_cast<double>(sequences * length);
  const auto blocks = static_cast<double>(model.layers.size() - 1);
  // A token sees (length + 1) / 2 others on average; scores and values: 2 x 2 operations each, three times.
  const double attention = 12 * blocks * static_cast<double>(width) * static_cast<double>(length + 1) / 2;
  return tokens * (6 * static_cast<double>(weights) + attention);
}

}  // namespace lockstep::cli
