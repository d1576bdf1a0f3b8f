#include "optim/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "lockstep/error.h"
#include "optim/adagrad.h"
#include "optim/adam.h"
#include "optim/rmsprop.h"
#include "optim/sgd.h"

namespace lockstep::optim {
namespace {

template <class Rule>
std::unique_ptr<Optimizer> make(const OptimizerOptions& options) {
  return std::make_unique<Rule>(options);
}

std::unique_ptr<Optimizer> make_adamw(const OptimizerOptions& options) {
  OptimizerOptions decoupled = options;
  decoupled.adam_w_mode = true;
  return std::make_unique<Adam>(decoupled);
}

struct Row {
  std::string_view name;
  std::unique_ptr<Optimizer> (*make)(const OptimizerOptions&);
};
constexpr std::array kOptimizers{
    Row{"Adam", make<Adam>},       Row{"AdamW", make_adamw},      Row{"SGD", make<Sgd>},
    Row{"Adagrad", make<Adagrad>}, Row{"RMSprop", make<Rmsprop>},
};
constexpr auto kNames = [] {
  std::array<std::string_view, kOptimizers.size()> names{};
  for (size_t i = 0; i < names.size(); ++i) names[i] = kOptimizers[i].name;
  return names;
}();

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

void check(const OptimizerOptions& options) {
  std::vector<std::string> problems;
  const auto require = [&](bool holds, std::string_view key, double value, std::string_view expected) {
    if (!holds)
      problems.push_back(fmt::format("optimizer.params.{}: {}; expected {}; change it", key, value, expected));
  };
  require(options.beta1 >= 0 && options.beta1 < 1, "betas[0]", options.beta1, "a number of 0 or more, below 1");
  require(options.beta2 >= 0 && options.beta2 < 1, "betas[1]", options.beta2, "a number of 0 or more, below 1");
  require(options.momentum >= 0, "momentum", options.momentum, "a number of 0 or more");
  require(options.alpha >= 0, "alpha", options.alpha, "a number of 0 or more");
  if (options.nesterov && (options.momentum <= 0 || options.dampening != 0)) {
    problems.emplace_back(
        "optimizer.params.nesterov: needs a momentum above 0 and no dampening; set momentum, leave dampening out");
  }
  if (!problems.empty()) throw ConfigError(std::move(problems));
}

}  // namespace

std::unique_ptr<Optimizer> make_optimizer(std::string_view type, const OptimizerOptions& options) {
  for (const Row& row : kOptimizers) {
    if (!equal_ignoring_case(row.name, type)) continue;
    check(options);
    return row.make(options);
  }
  throw ConfigError(fmt::format("optimizer.type: unknown optimizer \"{}\"; use one of {}", type,
                                fmt::join(kNames.begin(), kNames.end(), ", ")));
}

std::span<const std::string_view> optimizer_names() { return kNames; }

}  // namespace lockstep::optim
