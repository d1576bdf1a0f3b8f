#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace lockstep::cli {

/// What `lockstep train` was asked for.
struct TrainOptions {
  std::string config{};
  std::string model{};
  std::vector<std::string> data{};
  int64_t steps = 0;  ///< 0: one pass over the data.
  int ranks = 1;
  int64_t sequence_length = 0;  ///< 0: the model's maximum.
  uint64_t seed = 0;
  bool no_shuffle = false;
  std::string output = "run";
  std::string metrics{};                ///< Empty: OUTPUT/metrics.jsonl.
  std::string trace{};                  ///< Empty: none.
  std::optional<std::string> resume{};  ///< Empty text: the run's own latest.
  bool resume_if_present = false;
  bool no_save = false;
  bool from_scratch = false;
  double eval_fraction = 0;
  int64_t eval_every = 0;  ///< Steps; 0: only at the end.
  int threads = 0;         ///< Per rank; 0: cores / ranks on this host.
  double timeout_s = 0;    ///< 0: the config's or the environment's.
  bool lenient = false;
  std::string log_level{};  ///< Wins over the config's key.
};

/// "lockstep train".  arguments: the program's own, which ranks are started with.
void add_train_command(CLI::App& app, const std::vector<std::string>& arguments, int& exit_code);

/// Trains as one rank of the world that the environment describes.  Returns the exit code; throws as the library does.
int run_training(const TrainOptions& options);

}  // namespace lockstep::cli
