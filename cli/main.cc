#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>

#include "bench.h"
#include "config.h"
#include "exit_codes.h"
#include "lockstep/version.h"
#include "plan.h"
#include "tensor/cpu_allocator.h"
#include "train.h"

int main(int argc, char** argv) {
  using namespace lockstep;
  tensor::install_cpu_allocator();

  CLI::App app{"Lockstep: trains models in C++ as a DeepSpeed ds_config.json says."};
  app.set_version_flag("--version", [] {
    return std::string("lockstep ") + version() + "\nLibTorch " + built_with_torch() + "\nbuild " + build_description();
  });
  app.require_subcommand(1);
  int exit_code = cli::kDone;
  cli::add_train_command(app, argc, argv, exit_code);
  cli::add_config_command(app, exit_code);
  cli::add_plan_command(app, exit_code);
  cli::add_bench_command(app, exit_code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    exit_code = app.exit(error) == 0 ? cli::kDone : cli::kBadInput;
  }
  // Without static destructors: after a lost peer a thread may still wait for a store that never answers.
  std::fflush(nullptr);
  std::_Exit(exit_code);
}
