#include "config.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "exit_codes.h"
#include "lockstep/config.h"
#include "lockstep/error.h"

namespace lockstep::cli {
namespace {

using Json = nlohmann::ordered_json;

struct ConfigOptions {
  std::string file{};
  std::string key{};
  int64_t world = 0;  ///< 0: not given.
  int64_t hidden_size = 0;
  int64_t steps = 0;
  bool lenient = false;
  bool json = false;
  bool changed_only = false;
  bool markdown = false;

  [[nodiscard]] ParseOptions parsing() const {
    const auto given = [](int64_t value) { return value > 0 ? std::optional(value) : std::nullopt; };
    return {
        .world_size = given(world), .lenient = lenient, .hidden_size = given(hidden_size), .total_steps = given(steps)};
  }
};

void print(const std::string& text) { std::fputs(text.c_str(), stdout); }

void print_remarks(const Config& config) {
  for (const std::string& warning : config.warnings()) fmt::print("warning: {}\n", warning);
  for (const std::string& notice : config.notices()) fmt::print("note: {}\n", notice);
}

int check_json(const ConfigOptions& options) {
  Json report{{"file", options.file}, {"ok", true}, {"problems", Json::array()}};
  int code = kDone;
  try {
    const Config config = Config::from_file(options.file, options.parsing());
    report["warnings"] = config.warnings();
    report["notices"] = config.notices();
  } catch (const ConfigError& error) {
    report["ok"] = false;
    report["problems"] = error.problems();
    code = kBadInput;
  }
  print(report.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
  return code;
}

int check(const ConfigOptions& options) {
  if (options.json) return check_json(options);
  const Config config = Config::from_file(options.file, options.parsing());
  print_remarks(config);
  fmt::print("{}: fine. train_batch_size {} = micro batch {} x accumulation {} x replicas {}\n", options.file,
             config.train_batch_size, config.train_micro_batch_size_per_gpu, config.gradient_accumulation_steps,
             config.replicas);
  return kDone;
}

int show(const ConfigOptions& options) {
  const Config config = Config::from_file(options.file, options.parsing());
  if (!options.json) {
    print(config.to_listing(!options.changed_only));
    return kDone;
  }
  Json origins = Json::object();
  for (const auto& [path, origin] : config.reading.origins) origins[path] = origin.text();
  const Json report{{"config", Json::parse(config.to_json_text())},
                    {"origins", origins},
                    {"warnings", config.warnings()},
                    {"notices", config.notices()}};
  print(report.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
  return kDone;
}

int explain(const ConfigOptions& options) {
  const std::string text = explain_config_key(options.key);
  print(options.json ? Json{{"key", options.key}, {"explanation", text}}.dump(2) + "\n" : text);
  return kDone;
}

}  // namespace

void add_config_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("config", "Checks, shows and explains a ds_config.json");
  command->footer("Example: lockstep config check ds_config.json --world 8");
  command->require_subcommand(1);
  auto options = std::make_shared<ConfigOptions>();
  const auto add = [&](const char* name, const char* about, const char* example, int (*run)(const ConfigOptions&)) {
    CLI::App* sub = command->add_subcommand(name, about);
    sub->footer(fmt::format("Example: lockstep config {} {}", name, example));
    sub->callback([options, &exit_code, run] { exit_code = guarded([&] { return run(*options); }); });
    return sub;
  };
  const auto add_reading = [&](CLI::App* sub) {
    sub->add_option("FILE", options->file, "The ds_config.json")->required();
    sub->add_option("--world", options->world, "Ranks it will train on; default: as the batch keys say")
        ->check(CLI::Range(int64_t{1}, int64_t{1} << 20));
    sub->add_option("--hidden-size", options->hidden_size, "The model's width, for \"auto\" bucket sizes")
        ->check(CLI::PositiveNumber);
    sub->add_option("--steps", options->steps, "The run's steps, for \"auto\" schedules")->check(CLI::PositiveNumber);
    sub->add_flag("--lenient", options->lenient, "Unknown keys are warnings");
    sub->add_flag("--json", options->json, "Print one JSON object");
  };
  add_reading(
      add("check", "Reports every problem, and every key that changes nothing", "ds_config.json --world 8", check));
  CLI::App* shown =
      add("show", "Prints the effective config and where each value came from", "ds_config.json --world 8", show);
  add_reading(shown);
  shown->add_flag("--changed", options->changed_only, "Only what is not a default");
  CLI::App* explained = add("explain", "Says what a key does and costs", "zero_optimization.stage", explain);
  explained->add_option("KEY", options->key, "A key: its path, or its last word")->required();
  explained->add_flag("--json", options->json, "Print one JSON object");
  CLI::App* schema =
      add("schema", "Prints a JSON Schema for editors", "> ds_config.schema.json", [](const ConfigOptions& given) {
        print(given.markdown ? config_reference() : config_schema());
        return kDone;
      });
  schema->add_flag("--markdown", options->markdown, "Print docs/config.md instead");
  schema->add_flag("--json", options->json, "The schema is JSON anyway");
}

}  // namespace lockstep::cli
