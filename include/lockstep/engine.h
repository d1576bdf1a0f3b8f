#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/export.h"
#include "lockstep/layer.h"
#include "lockstep/log.h"

namespace LOCKSTEP_API lockstep {

struct Batch;
struct Config;
struct World;
class Loader;
class Trace;

/// Where the time of one optimizer step went, in milliseconds, micro-batches summed.
struct PhaseTimes {
  double forward_ms = 0;
  double backward_ms = 0;  ///< Overlapped reduction runs within it.
  double reduce_ms = 0;    ///< What was left of the reduction after backward.
  double step_ms = 0;      ///< Norm, clipping, update.
};

/// What one optimizer step did: the same on every rank.
struct StepReport {
  int64_t step = 0;      ///< From 1; counts attempted steps, skipped ones included.
  double loss = 0;       ///< Mean over micro-batches and ranks.
  double lr = 0;         ///< Used by this update, parameter group 0.
  double grad_norm = 0;  ///< L2 over all parameters, unscaled, before clipping.
  double loss_scale = 1;
  bool skipped = false;     ///< A loss or gradient was not finite: weights, moments and schedule stayed as they were.
  int64_t tokens = 0;       ///< Cumulative, over all ranks.
  PhaseTimes mean_times{};  ///< Over ranks.
  PhaseTimes max_times{};   ///< Over ranks, each phase for itself.
};

/// The L2 norm of one parameter's tensor.
struct NamedNorm {
  std::string name{};
  double norm = 0;
};

struct EngineOptions {
  uint64_t seed = 0;             ///< Initial weights and dropout come from it.
  std::string weights_folder{};  ///< Hugging Face folder to start from; empty: initialize from the seed.
  Log log{};
  std::shared_ptr<Trace> trace{};  ///< Takes the time line of every step; null: none is kept.
};

/// What decides the samples a run has seen; kept in checkpoints so that a resumed run goes on where it stopped.
struct DataDescription {
  std::string name{};
  int64_t sequence_length = 0;
  bool shuffle = true;
  int64_t token_count = 0;
};

/// Trains one model as a config says.  All ranks make the same calls in the same order.  Used by one thread at a time;
/// several engines may live in one process.  A CommError leaves the engine unusable; other errors leave it as it was.
class Engine {
 public:
  struct Parts;
  explicit Engine(std::unique_ptr<Parts> parts);
  Engine(Engine&&) noexcept;
  Engine& operator=(Engine&&) noexcept;
  ~Engine();

  /// One micro-batch.  input: int64 [micro, T] for the built-in models; target: what the model's loss takes.
  /// Returns the mean loss, a scalar in fp32 with its graph.  Any number of forwards may precede a backward.
  [[nodiscard]] at::Tensor forward(const at::Tensor& input, const at::Tensor& target);
  /// Scales the loss, runs backward and, at a boundary, reduces gradients as they appear.  `loss`: a scalar, one that
  /// forward returned or made from several.  Gradients of several backwards add up, as their losses do in the report;
  /// at a boundary each of them is a reduction of its own, unless it runs within no_sync().  A backward that throws
  /// makes all ranks skip the step.
  void backward(const at::Tensor& loss);
  /// While it lives, this engine's backwards add to this rank's own sums; the next backward outside of it reduces them
  /// all at once.  For every stage.  All ranks open and close it alike.
  class NoSync;
  [[nodiscard]] NoSync no_sync();
  /// After every micro-batch's backward; updates the weights at a boundary, else only counts the micro-batch.
  /// Throws CommError, DivergedError; ConfigError where no backward came before, or a boundary's last one was not
  /// reduced.
  void step();
  /// True where the micro-batch under way is the step's last.
  [[nodiscard]] bool is_gradient_accumulation_boundary() const;

  /// A whole optimizer step: every micro-batch from the loader's position on.
  StepReport train_batch(const Loader& loader);
  /// The mean loss of one micro-batch on this rank, without gradients and without dropout.
  [[nodiscard]] double eval_batch(const Batch& batch);
  /// The mean of eval_batch over every sample that `loader` has, over all ranks.
  [[nodiscard]] double evaluate(const Loader& loader);

  /// The last step's, once there was one.
  [[nodiscard]] const std::optional<StepReport>& report() const;
  [[nodiscard]] int64_t global_steps() const;  ///< Attempted.
  [[nodiscard]] int64_t applied_steps() const;
  [[nodiscard]] int64_t skipped_steps() const;
  [[nodiscard]] int64_t global_samples() const;
  [[nodiscard]] int64_t micro_steps() const;  ///< This rank's micro-batches so far: the loader's next position.
  [[nodiscard]] double lr() const;            ///< What the next update will use, group 0.
  [[nodiscard]] double loss_scale() const;    ///< What the next backward multiplies the loss by.
  [[nodiscard]] const Config& config() const;
  /// Who holds what, and what a step sends, as a table.
  [[nodiscard]] std::string plan_text() const;
  [[nodiscard]] int64_t parameter_count() const;

  // Whole tensors by parameter name, the same at every stage; every rank makes the same calls.  Throw ConfigError for a
  // name that the model does not have, CommError.

  /// Whole parameters to read and to edit, until close() or the scope's end.
  class GatheredParameters;
  /// names: or patterns in which '*' stands for any run of characters.
  [[nodiscard]] GatheredParameters gather_parameters(const std::vector<std::string>& names);
  /// The mean gradient over micro-batches and ranks (their sum over ranks where gradient_allreduce_op says so), before
  /// clipping: fp32, the parameter's shape, a copy.  Between the
  /// last backward of a step and step(); ConfigError at any other time, or for a frozen parameter.
  [[nodiscard]] at::Tensor gradient(const std::string& name);
  /// A parameter's values as the update has them, fp32 master weights where there are: fp32, the parameter's shape, a
  /// copy.  Collective.  ConfigError for a frozen parameter.
  [[nodiscard]] at::Tensor weight(const std::string& name);
  /// The L2 norms of all gradients, in the parameters' order; exact sums, rounded once.  As gradient().
  [[nodiscard]] std::vector<NamedNorm> gradient_norms();
  /// One of the optimizer's states, by LibTorch's name ("exp_avg", "exp_avg_sq", "momentum_buffer", ...): fp32, the
  /// parameter's shape, a copy.
  [[nodiscard]] at::Tensor optimizer_state(const std::string& name, const std::string& state);
  /// Whether matching parameters are trained from the next forward on.  One that is not keeps value and states, decay
  /// included.  Only for parameters that were trainable when the engine was made: others have no states.
  /// Not kept in checkpoints.
  void set_trainable(const std::string& pattern, bool trainable);

  /// Writes DIRECTORY/TAG and moves DIRECTORY/latest to it.  tag empty: "global_step{N}", or as checkpoint.prefix says.
  /// Collective.  Throws IoError, CheckpointError (between a micro-batch and its boundary), CommError.
  void save_checkpoint(const std::string& directory, const std::string& tag = {});
  /// Restores everything that makes the resumed run the same run.  tag empty: DIRECTORY/latest.  Collective.
  /// Throws CheckpointError.
  void load_checkpoint(const std::string& directory, const std::string& tag = {});
  /// What the checkpoint that is saved next says of the data, and what the one loaded said.
  void describe_data(const DataDescription& data);
  /// The weights as a Hugging Face folder: config.json and model.safetensors.  Collective; rank 0 writes.
  void export_weights(const std::string& directory);

 private:
  std::unique_ptr<Parts> parts_;
};

class Engine::GatheredParameters {
 public:
  GatheredParameters(Parts& parts, std::vector<int> parameters);
  GatheredParameters(GatheredParameters&& other) noexcept;
  GatheredParameters& operator=(GatheredParameters&&) = delete;
  /// As close(), but a failure is told by the next call that needs the other ranks.
  ~GatheredParameters();

  /// Every name in scope, in the model's order.
  [[nodiscard]] std::vector<std::string> names() const;
  /// The parameter's values, fp32, its shape.  What rank 0 writes into them becomes every rank's by close(); autograd
  /// notices a write between forward and backward.  Throws ConfigError for a name that is not in scope.
  [[nodiscard]] at::Tensor operator[](const std::string& name) const;
  /// Makes rank 0's values everyone's and gives the memory back.  Throws CommError.
  void close();

 private:
  Parts* parts_;
  std::vector<int> parameters_;
  std::vector<int> units_;
};

class Engine::NoSync {
 public:
  explicit NoSync(int& scopes);
  ~NoSync();
  NoSync(const NoSync&) = delete;
  NoSync& operator=(const NoSync&) = delete;

 private:
  int& scopes_;
};

/// Builds the engine: checks the config against the world, plans, builds the model layer by layer.
/// Throws ConfigError, IoError, CommError (ranks that disagree on the plan).
Engine initialize(const LayerStack& model, const Config& config, const World& world, const EngineOptions& options = {});

}  // namespace lockstep
