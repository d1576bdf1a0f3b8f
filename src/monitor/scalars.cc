#include "monitor/scalars.h"

namespace lockstep::monitor {

std::vector<Scalar> scalars(const StepRecord& record) {
  const auto as_float = [](double value) { return static_cast<double>(static_cast<float>(value)); };
  std::vector<Scalar> values{{"Train/Samples/train_loss", as_float(record.loss)},
                             {"Train/Samples/lr", record.lr},
                             {"Train/Samples/grad_norm", as_float(record.grad_norm)},
                             {"Train/Samples/loss_scale", record.loss_scale},
                             {"Train/Samples/tokens_per_s", as_float(record.tokens_per_s)},
                             {"Train/Samples/peak_bytes", static_cast<double>(record.peak_bytes)}};
  if (record.eval_loss) values.push_back({"Train/Samples/eval_loss", as_float(*record.eval_loss)});
  return values;
}

std::vector<std::string> scalar_names() {
  std::vector<std::string> names;
  for (const Scalar& scalar : scalars({.eval_loss = 0})) names.push_back(scalar.name);
  return names;
}

}  // namespace lockstep::monitor
