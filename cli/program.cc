#include "program.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "bench.h"
#include "config.h"
#include "exit_codes.h"
#include "lockstep/version.h"
#include "plan.h"
#include "train.h"

namespace lockstep::cli {

int run_program(const std::vector<std::string>& arguments) {
  CLI::App app{"Lockstep: trains models in C++ as a DeepSpeed ds_config.json says."};
  app.set_version_flag("--version", [] {
    return std::string("lockstep ") + version() + "\nLibTorch " + built_with_torch() + "\nbuild " + build_description();
  });
  app.require_subcommand(1);
  int exit_code = kDone;
  add_train_command(app, arguments, exit_code);
  add_config_command(app, exit_code);
  add_plan_command(app, exit_code);
  add_bench_command(app, exit_code);
  try {
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));  // CLI11 takes them last first.
  } catch (const CLI::ParseError& error) {
    exit_code = app.exit(error) == 0 ? kDone : kBadInput;
  }
  return exit_code;
}

}  // namespace lockstep::cli
