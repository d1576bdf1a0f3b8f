#include "train.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "exit_codes.h"
#include "launch/rank_environment.h"
#include "launch_ranks.h"
#include "lockstep/config.h"
#include "lockstep/error.h"
#include "lockstep/log.h"

namespace lockstep::cli {
namespace {

/// Checks what can be checked before a process is started, so that one voice names every problem.
void check_before_launch(const TrainOptions& options) {
  if (std::getenv("RANK") != nullptr)
    throw ConfigError(
        "--ranks starts ranks itself, and RANK is set: this process is already one of a world; "
        "leave out --ranks, or unset RANK");
  (void)Config::from_file(options.config,
                          {.world_size = options.ranks,
                           .lenient = options.lenient,
                           .total_steps = options.steps > 0 ? std::optional(options.steps) : std::nullopt});
}

int train(const TrainOptions& options, const std::vector<std::string>& arguments) {
  if (!options.log_level.empty()) (void)parse_log_level(options.log_level);
  if (options.resume && options.resume_if_present)
    throw ConfigError("--resume and --resume-if-present exclude each other; give one");
  if (options.ranks == 1) return run_training(options);
  check_before_launch(options);
  return launch_ranks(options.ranks, arguments);
}

/// For the children.
std::vector<std::string> without_ranks(const std::vector<std::string>& arguments) {
  std::vector<std::string> kept;
  for (size_t at = 0; at < arguments.size(); ++at) {
    if (arguments[at] == "--ranks")
      ++at;
    else if (!arguments[at].starts_with("--ranks="))
      kept.push_back(arguments[at]);
  }
  return kept;
}

}  // namespace

void add_train_command(CLI::App& app, const std::vector<std::string>& arguments, int& exit_code) {
  CLI::App* command = app.add_subcommand("train", "Trains a model as a ds_config.json says");
  command->footer(
      "Example: lockstep train --config ds_config.json --model gpt2-nano --data corpus.txt --ranks 2 --steps 500");
  auto options = std::make_shared<TrainOptions>();
  auto resume = std::make_shared<std::string>();
  auto device = std::make_shared<std::string>("cpu");
  const auto non_negative = CLI::NonNegativeNumber;
  command->add_option("--config,--deepspeed_config", options->config, "The ds_config.json")->required();
  command
      ->add_option("--model", options->model,
                   "A preset (gpt2-nano, llama-nano, gpt2-small, ...) or a Hugging Face folder")
      ->required();
  command->add_option("--data", options->data, "Text file: bytes are tokens")->required();
  command->add_option("--steps", options->steps, "The run's optimizer steps in all; default: one pass over the data")
      ->check(CLI::PositiveNumber);
  command->add_option("--ranks", options->ranks, "Processes to start on this host")->check(CLI::Range(1, 1024));
  command->add_option("--seq-len", options->sequence_length, "Sequence length; default: the model's maximum")
      ->check(CLI::PositiveNumber);
  command->add_option("--seed", options->seed, "Seed of weights, dropout and sample order");
  command->add_flag("--no-shuffle", options->no_shuffle, "Take samples in the file's order");
  command->add_option("--device", *device, "Where to compute")->check(CLI::IsMember({"cpu"}));
  command->add_option("--output", options->output, "Folder of metrics and checkpoints");
  command->add_option("--metrics", options->metrics, "Metrics file; default: OUTPUT/metrics.jsonl");
  command->add_option("--trace", options->trace,
                      "Time line of every rank, for ui.perfetto.dev or chrome://tracing; written at the end");
  CLI::Option* resume_option =
      command
          ->add_option("--resume", *resume, "Go on from DIR[/TAG]; without a value, from the run's latest checkpoint")
          ->expected(0, 1);
  command->add_flag("--resume-if-present", options->resume_if_present, "Go on where there is a checkpoint, else start");
  command->add_flag("--no-save", options->no_save, "Write no checkpoint at the end");
  command->add_flag("--from-scratch", options->from_scratch, "Ignore the model folder's weights");
  command
      ->add_option("--eval-fraction", options->eval_fraction,
                   "Share of the tokens, at the end, held back for evaluation")
      ->check(CLI::Range(0.0, 0.9));
  command->add_option("--eval-every", options->eval_every, "Evaluate every N steps; default: at the end")
      ->check(CLI::PositiveNumber);
  command->add_option("--threads", options->threads, "Threads per rank; default: cores / ranks on this host")
      ->check(CLI::Range(1, 4096));
  command->add_option("--timeout", options->timeout_s, "Seconds that any wait for a peer may take")
      ->check(non_negative);
  command->add_flag("--lenient", options->lenient, "Unknown config keys are warnings");
  command->add_option("--log_level,--log-level", options->log_level, "debug, info, warning, error or critical");
  command->callback([=, &exit_code] {
    if (resume_option->count() > 0) options->resume = *resume;
    const int rank = launch::rank_environment().rank;
    exit_code = guarded([&] { return train(*options, without_ranks(arguments)); }, rank);
  });
}

}  // namespace lockstep::cli
