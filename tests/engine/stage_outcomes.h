#pragma once

#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/files.h"
#include "checkpoint/reader.h"
#include "engine/training_runs.h"

namespace lockstep::testing_models {

struct Outcome {
  std::vector<double> numbers{};                       ///< Loss and norm of every step.
  std::map<std::string, std::vector<float>> values{};  ///< Weights and optimizer states, by name.
};

inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

inline std::map<std::string, std::vector<float>> read_all(const std::string& folder) {
  checkpoint::Reader reader = checkpoint::Reader::open(base::host_files(), folder);
  std::vector<std::string> states = reader.optimizer_states();
  states.emplace_back();
  std::map<std::string, std::vector<float>> all;
  for (const auto& [name, shape] : reader.parameters()) {
    int64_t numel = 1;
    for (const int64_t dim : shape) numel *= dim;
    for (const std::string& state : states) {
      if (!reader.has(name, state)) continue;
      std::vector<float>& into = all[name + " " + state];
      into.resize(static_cast<size_t>(numel));
      reader.read(name, state, 0, into);
    }
  }
  return all;
}

/// Twelve steps, the last six of them after a resume.
inline Outcome outcome(const TinyOptions& options, int world, int64_t accumulation, const std::string& more,
                       LayerStack (*model)(const TinyOptions&) = tiny) {
  const std::string folder = testing::TempDir() + "lockstep_stages";
  std::filesystem::remove_all(folder);
  Outcome result;
  comm::run_ranks(world, [&](Communicator& group) {
    const int64_t micro = kGlobalBatch / world / accumulation;
    const auto train = [&](Engine& engine, int64_t from, int64_t to) {
      for (int64_t step = from; step < to; ++step) {
        const StepReport report = run_step(engine, group, micro, accumulation, step);
        if (group.rank() == 0) result.numbers.insert(result.numbers.end(), {report.loss, report.grad_norm});
      }
      engine.save_checkpoint(folder);
    };
    Engine first = make_engine(model(options), group, config_text(micro, accumulation, more));
    train(first, 0, 6);
    Engine second = make_engine(model(options), group, config_text(micro, accumulation, more));
    second.load_checkpoint(folder);
    train(second, 6, 12);
  });
  result.values = read_all(folder);
  return result;
}

/// switches: one bit each for contiguous_gradients, reduce_scatter, allgather_partitions and round_robin_gradients.
inline std::string zero_text(int stage, int64_t bucket, bool overlap, const char* reduce_at, int switches = 7) {
  const auto flag = [switches](int bit) { return (switches >> bit & 1) != 0 ? "true" : "false"; };
  return R"(, "zero_optimization": {"stage": )" + std::to_string(stage) + R"(, "reduce_bucket_size": )" +
         std::to_string(bucket) + R"(, "allgather_bucket_size": )" + std::to_string(2 * bucket) +
         R"(, "overlap_comm": )" + (overlap ? "true" : "false") + R"(, "contiguous_gradients": )" + flag(0) +
         R"(, "reduce_scatter": )" + flag(1) + R"(, "allgather_partitions": )" + flag(2) +
         R"(, "round_robin_gradients": )" + flag(3) + R"(}, "lockstep": {"reduce_at": ")" + reduce_at + "\"}";
}

}  // namespace lockstep::testing_models
