#include "plan.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "engine/parts.h"
#include "exit_codes.h"
#include "lockstep/models.h"

namespace lockstep::cli {
namespace {

struct PlanOptions {
  std::string config{};
  std::string model{};
  int world = 1;
  bool json = false;
  bool lenient = false;
};

int print_plan(const PlanOptions& options) {
  const LayerStack model = models::from_preset_or_folder(options.model);
  const Config config = Config::from_file(options.config, {.world_size = options.world, .lenient = options.lenient});
  const plan::Plan plan = engine::plan_for(model, config, options.world);
  std::fputs((options.json ? plan::to_json_text(plan) : plan::to_text(plan)).c_str(), stdout);
  return kDone;
}

}  // namespace

void add_plan_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("plan", "Who holds what, predicted memory and bytes sent; trains nothing");
  command->footer("Example: lockstep plan --config ds_config.json --model gpt2-small --world 64");
  auto options = std::make_shared<PlanOptions>();
  command->add_option("--config,--deepspeed_config", options->config, "The ds_config.json")->required();
  command->add_option("--model", options->model, "A preset or a Hugging Face folder")->required();
  command->add_option("--world", options->world, "Number of ranks")->check(CLI::Range(1, 1 << 20));
  command->add_flag("--json", options->json, "Print one JSON object");
  command->add_flag("--lenient", options->lenient, "Unknown keys are warnings");
  command->callback([options, &exit_code] { exit_code = guarded([&] { return print_plan(*options); }); });
}

}  // namespace lockstep::cli
