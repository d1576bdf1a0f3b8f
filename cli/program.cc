#include "program.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "bench.h"
#include "config.h"
#include "config/nearest.h"
#include "exit_codes.h"
#include "lockstep/error.h"
#include "lockstep/version.h"
#include "plan.h"
#include "reference.h"
#include "train.h"

namespace lockstep::cli {
namespace {

/// Throws ConfigError where a word stands for a sub-command and is none.
void check_subcommands(const CLI::App& app, const std::vector<std::string>& arguments) {
  const CLI::App* command = &app;
  for (const std::string& word : arguments) {
    const auto below = command->get_subcommands([](const CLI::App*) { return true; });
    if (below.empty() || word.starts_with('-')) return;
    const auto found = std::ranges::find(below, word, &CLI::App::get_name);
    if (found == below.end()) {
      std::vector<std::string> names;
      for (const CLI::App* each : below) names.push_back(each->get_name());
      const auto near = config::nearest(word, names);
      throw ConfigError(fmt::format(
          "unknown sub-command \"{}\"; {}", word,
          near ? fmt::format("did you mean \"{}\"?", *near) : fmt::format("expected {}", config::listed(names))));
    }
    command = *found;
  }
}

}  // namespace

int run_program(const std::vector<std::string>& arguments) {
  CLI::App app{"Trains models in C++ as a DeepSpeed ds_config.json says", "lockstep"};
  app.footer(
      "Example: lockstep train --config ds_config.json --model gpt2-nano --data corpus.txt --ranks 2 --steps 500");
  app.set_version_flag("--version", [] {
    return std::string("lockstep ") + version() + "\nLibTorch " + built_with_torch() + "\nbuild " + build_description();
  });
  app.require_subcommand(1);
  int exit_code = kDone;
  add_train_command(app, arguments, exit_code);
  add_config_command(app, exit_code);
  add_plan_command(app, exit_code);
  add_bench_command(app, exit_code);
  add_reference_commands(app);
  const auto check = [&] {
    check_subcommands(app, arguments);
    return kDone;
  };
  if (const int code = guarded(check); code != kDone) return code;
  try {
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));  // CLI11 takes them last first.
  } catch (const CLI::ParseError& error) {
    exit_code = app.exit(error) == 0 ? kDone : kBadInput;
  }
  return exit_code;
}

}  // namespace lockstep::cli
