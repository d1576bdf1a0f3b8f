// One rank's run of `lockstep train`: read, build, train, evaluate, save.
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <thread>

#include "base/files.h"
#include "base/units.h"
#include "checkpoint/reader.h"
#include "exit_codes.h"
#include "launch/rank_environment.h"
#include "lockstep/config.h"
#include "lockstep/data.h"
#include "lockstep/engine.h"
#include "lockstep/error.h"
#include "lockstep/launch.h"
#include "lockstep/models.h"
#include "lockstep/trace.h"
#include "lockstep/version.h"
#include "monitor/csv_monitor.h"
#include "monitor/event_file.h"
#include "monitor/memory.h"
#include "monitor/metrics.h"
#include "monitor/progress.h"
#include "monitor/table.h"
#include "monitor/timers.h"
#include "tensor/cpu_allocator.h"
#include "trace_file.h"
#include "train.h"

namespace lockstep::cli {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// Where a run keeps its files.
struct RunFolder {
  std::string metrics{};
  std::string checkpoints{};
  std::string csv{};          ///< Empty: switched off.
  std::string tensorboard{};  ///< Empty: switched off.
};

std::string monitor_folder(const FileMonitorConfig& monitor) {
  return monitor.enabled ? (std::filesystem::path(monitor.output_path) / monitor.job_name).string() : std::string();
}

RunFolder run_folder(const TrainOptions& options, const Config& config) {
  return {.metrics = options.metrics.empty() ? options.output + "/metrics.jsonl" : options.metrics,
          .checkpoints = config.checkpoint.enabled && config.checkpoint.path ? *config.checkpoint.path
                                                                             : options.output + "/checkpoints",
          .csv = monitor_folder(config.csv_monitor),
          .tensorboard = monitor_folder(config.tensorboard)};
}

struct ResumePoint {
  std::string directory{};
  std::string tag{};  ///< Empty: latest.
};

/// Where to go on from, if anywhere.  Throws CheckpointError where --resume finds nothing.
std::optional<ResumePoint> find_resume_point(const TrainOptions& options, const RunFolder& folder) {
  const auto has_latest = [](const std::string& directory) { return base::host_files().exists(directory + "/latest"); };
  if (options.resume_if_present)
    return has_latest(folder.checkpoints) ? std::optional(ResumePoint{folder.checkpoints, ""}) : std::nullopt;
  if (!options.resume) return std::nullopt;
  if (options.resume->empty() || has_latest(*options.resume))
    return ResumePoint{options.resume->empty() ? folder.checkpoints : *options.resume, ""};
  const std::filesystem::path path(*options.resume);
  return ResumePoint{path.parent_path().string(), path.filename().string()};
}

void refuse_used_output(const TrainOptions& options, const RunFolder& folder) {
  for (const std::string& used : {folder.metrics, folder.checkpoints + "/latest"})
    if (base::host_files().exists(used))
      throw ConfigError(
          fmt::format("{} exists: {} already holds a run; add --resume to go on with it, or give another "
                      "--output",
                      used, options.output));
  const auto refuse_monitor = [](const char* section, const std::string& used) {
    if (base::host_files().exists(used))
      throw ConfigError(
          fmt::format("{} exists: it holds another run's values; add --resume to go on with that run, or give "
                      "another {}.job_name",
                      used, section));
  };
  if (!folder.csv.empty()) refuse_monitor("csv_monitor", monitor::CsvMonitor::first_file(folder.csv));
  if (!folder.tensorboard.empty()) refuse_monitor("tensorboard", monitor::EventFile::path_in(folder.tensorboard));
}

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

LogLevel log_level(const TrainOptions& options, const Config& config) {
  if (!options.log_level.empty()) return parse_log_level(options.log_level);
  return config.log_level ? parse_log_level(*config.log_level) : LogLevel::warning;
}

/// Rank 0 speaks for all.
Log make_log(int rank, LogLevel least) {
  if (rank != 0) return {};
  return Log(
      [](LogLevel level, std::string_view text) {
        static constexpr std::array kNames{"debug", "info", "warning", "error", "critical", ""};
        std::fprintf(stderr, "lockstep: %s: %.*s\n", kNames[static_cast<size_t>(level)], static_cast<int>(text.size()),
                     text.data());
      },
      least);
}

/// As --threads says; else as many as the checkpoint's run had, since products differ with it; else the cores' share.
int thread_count(const TrainOptions& options, int ranks_on_host, const std::optional<ResumePoint>& point) {
  if (options.threads > 0) return options.threads;
  if (point)
    return checkpoint::Reader::open(base::host_files(), point->directory, point->tag).state().run.threads_per_rank;
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()) / std::max(1, ranks_on_host));
}

std::string times_text(const PhaseTimes& times) {
  return monitor::describe({times.forward_ms, times.backward_ms, times.reduce_ms, times.step_ms});
}

monitor::ProgressOptions progress_options(const Config& config, int64_t first_step, int64_t total_steps) {
  struct winsize size {};
  const bool terminal = ::isatty(STDERR_FILENO) == 1 && ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0;
  return {.total_steps = total_steps,
          .first_step = first_step,
          .terminal = terminal,
          .columns = size.ws_col > 0 ? size.ws_col : 80,
          .steps_per_print = config.steps_per_print,
          .write = [](std::string_view text) { std::fwrite(text.data(), 1, text.size(), stderr); }};
}

/// Everything one rank trains with.
class Run {
 public:
  Run(const TrainOptions& options, World world, Config config)
      : options_(options),
        world_(std::move(world)),
        config_(std::move(config)),
        folder_(run_folder(options, config_)),
        model_(models::from_preset_or_folder(options.model)),
        source_(open_text_files(options.data)),
        split_(split_tokens(source_->size(), options.eval_fraction)),
        sequence_length_(options.sequence_length > 0 ? options.sequence_length : model_.max_sequence),
        log_(make_log(world_.rank, log_level(options, config_))) {}

  int operator()();

 private:
  [[nodiscard]] LoaderOptions loader_options(bool training) const;
  void open_monitors(const Engine& engine, bool resumed);
  void banner(const Engine& engine) const;
  void train(Engine& engine);
  std::optional<double> evaluate(Engine& engine, bool due);
  void report(const Engine& engine, const std::optional<double>& eval_loss, double step_s);
  void goodbye() const;

  const TrainOptions& options_;
  World world_;
  const Config config_;
  const RunFolder folder_;
  const LayerStack model_;
  const std::shared_ptr<TokenSource> source_;
  const TokenSplit split_;
  const int64_t sequence_length_;
  const Log log_;
  int64_t steps_ = 0;
  std::unique_ptr<monitor::MetricsFile> metrics_;
  std::unique_ptr<monitor::CsvMonitor> csv_;        // Null: switched off.
  std::unique_ptr<monitor::EventFile> event_file_;  // Null: switched off.
  std::unique_ptr<monitor::Progress> progress_;
};

LoaderOptions Run::loader_options(bool training) const {
  const TokenRange& range = training ? split_.training : split_.evaluation;
  return {.sequence_length = sequence_length_,
          .micro_batch = config_.train_micro_batch_size_per_gpu,
          .rank = world_.rank,
          .world = world_.size,
          .seed = options_.seed,
          .shuffle = training && !options_.no_shuffle,
          .first_token = range.first,
          .token_count = range.count,
          .model_vocabulary = model_.vocabulary};
}

void Run::open_monitors(const Engine& engine, bool resumed) {
  metrics_ = std::make_unique<monitor::MetricsFile>(folder_.metrics);
  if (!folder_.csv.empty()) csv_ = std::make_unique<monitor::CsvMonitor>(folder_.csv);
  if (!folder_.tensorboard.empty())
    event_file_ = std::make_unique<monitor::EventFile>(folder_.tensorboard, seconds_since_1970());
  if (resumed) {
    metrics_->cut_back_to(engine.global_steps());
    if (csv_) csv_->cut_back_to(engine.global_samples());
    if (event_file_) event_file_->cut_back_to(engine.global_samples());
  }
  progress_ = std::make_unique<monitor::Progress>(progress_options(config_, engine.global_steps() + 1, steps_));
}

void Run::banner(const Engine& engine) const {
  if (world_.rank != 0) return;
  const bool clipping_given = config_.provenance("gradient_clipping").source != Origin::Source::defaulted;
  const std::vector<monitor::TableRow> rows{
      {"model", options_.model, base::format_count(engine.parameter_count()) + " parameters"},
      {"data", fmt::format("{} tokens", base::format_count(split_.training.count)),
       fmt::format("{}, {} held back", source_->name(), base::format_count(split_.evaluation.count))},
      {"batch", fmt::format("{} x {} tokens", config_.train_batch_size, sequence_length_),
       fmt::format("{} a rank x {} accumulated x {} ranks", config_.train_micro_batch_size_per_gpu,
                   config_.gradient_accumulation_steps, world_.size)},
      {"optimizer", config_.optimizer.type,
       fmt::format("lr {}{}", base::shortest(config_.optimizer.params.lr),
                   config_.scheduler.type.empty() ? "" : ", " + config_.scheduler.type)},
      {"clipping", base::shortest(config_.gradient_clipping), clipping_given ? "" : "the default; 0 switches it off"},
      {"ranks", fmt::format("{}", world_.size),
       fmt::format("{} threads each, deadline {:g} s", at::get_num_threads(),
                   std::chrono::duration<double>(world_.communicator->deadline()).count())},
      {"steps", fmt::format("{}", steps_),
       engine.global_steps() > 0 ? fmt::format("from {}", engine.global_steps()) : ""},
  };
  std::fputs(
      monitor::format_table(fmt::format("lockstep {}, LibTorch {}", version(), built_with_torch()), rows).c_str(),
      stderr);
}

std::optional<double> Run::evaluate(Engine& engine, bool due) {
  if (!due || split_.evaluation.count == 0) return std::nullopt;
  return engine.evaluate(Loader(source_, loader_options(false)));
}

void Run::report(const Engine& engine, const std::optional<double>& eval_loss, double step_s) {
  const StepReport& step = *engine.report();
  const monitor::StepRecord record{
      .step = step.step,
      .loss = step.loss,
      .lr = step.lr,
      .grad_norm = step.grad_norm,
      .loss_scale = step.loss_scale,
      .skipped = step.skipped,
      .tokens = step.tokens,
      .tokens_per_s = static_cast<double>(config_.train_batch_size * sequence_length_) / step_s,
      .step_ms = step_s * 1e3,
      .peak_bytes = tensor::peak_bytes(),
      .peak_rss_bytes = monitor::peak_rss_bytes(),
      .eval_loss = eval_loss,
      .samples = engine.global_samples()};
  metrics_->append(record);
  if (csv_) csv_->append(record);
  if (event_file_) event_file_->append(record, seconds_since_1970());
  progress_->update(record);
  if (config_.wall_clock_breakdown)
    progress_->message(fmt::format("step {} mean: {}", step.step, times_text(step.mean_times)) +
                       fmt::format("; max over ranks: {}", times_text(step.max_times)));
}

void Run::train(Engine& engine) {
  const Loader loader(source_, loader_options(true));
  while (engine.global_steps() < steps_) {
    const Clock::time_point start = Clock::now();
    const StepReport step = engine.train_batch(loader);
    const double step_s = seconds_since(start);
    const bool last = step.step == steps_;
    const bool due = last || (options_.eval_every > 0 && step.step % options_.eval_every == 0);
    const std::optional<double> eval_loss = evaluate(engine, due);
    if (world_.rank == 0) report(engine, eval_loss, step_s);
    const auto& checkpoint = config_.checkpoint;
    const bool save_due = checkpoint.enabled && checkpoint.save_interval && step.step % *checkpoint.save_interval == 0;
    if (save_due || (last && !options_.no_save)) engine.save_checkpoint(folder_.checkpoints);
  }
}

void Run::goodbye() const {
  if (world_.rank != 0) return;
  progress_->finish();
  std::fprintf(stderr, "metrics: %s\n", folder_.metrics.c_str());
  if (!options_.trace.empty()) std::fprintf(stderr, "trace: %s\n", options_.trace.c_str());
  if (csv_) std::fprintf(stderr, "csv: %s\n", folder_.csv.c_str());
  if (event_file_) std::fprintf(stderr, "tensorboard: %s\n", folder_.tensorboard.c_str());
  if (!options_.no_save) std::fprintf(stderr, "checkpoint: %s\n", folder_.checkpoints.c_str());
}

int Run::operator()() {
  if (sequence_length_ == 0)
    throw ConfigError("--seq-len: the model has no maximum sequence length of its own; give one");
  if (model_.max_sequence > 0 && sequence_length_ > model_.max_sequence)
    throw ConfigError(
        fmt::format("--seq-len {}: the model takes at most {} positions", sequence_length_, model_.max_sequence));
  const std::optional<ResumePoint> point = find_resume_point(options_, folder_);
  at::set_num_threads(thread_count(options_, world_.local_size, point));
  if (!point && world_.rank == 0) refuse_used_output(options_, folder_);
  const Loader loader(source_, loader_options(true));
  if (split_.evaluation.count > 0) (void)Loader(source_, loader_options(false));
  steps_ = options_.steps > 0 ? options_.steps : std::max<int64_t>(1, loader.samples() / config_.train_batch_size);

  EngineOptions engine_options{.seed = options_.seed, .log = log_};
  if (!options_.trace.empty()) engine_options.trace = std::make_shared<Trace>(world_.rank);
  if (!options_.from_scratch) engine_options.weights_folder = models::weights_folder(options_.model);
  Engine engine = initialize(model_, config_, world_, engine_options);
  engine.describe_data({.name = source_->name(),
                        .sequence_length = sequence_length_,
                        .shuffle = !options_.no_shuffle,
                        .token_count = split_.training.count});
  if (point) engine.load_checkpoint(point->directory, point->tag);
  if (world_.rank == 0) open_monitors(engine, point.has_value());
  banner(engine);
  train(engine);
  if (engine_options.trace) write_trace_file(*world_.communicator, *engine_options.trace, options_.trace);
  goodbye();
  return kDone;
}

}  // namespace

int run_training(const TrainOptions& options) {
  const launch::RankEnvironment environment = launch::rank_environment();
  // The config is checked before a rank waits for others, so that a bad one costs no deadline.
  Config config = Config::from_file(options.config,
                                    {.world_size = environment.size,
                                     .lenient = options.lenient,
                                     .total_steps = options.steps > 0 ? std::optional(options.steps) : std::nullopt});
  using std::chrono::milliseconds;
  const auto from_seconds = [](double seconds) { return milliseconds(static_cast<int64_t>(seconds * 1e3)); };
  const milliseconds deadline = options.timeout_s > 0
                                    ? from_seconds(options.timeout_s)
                                    : environment.deadline.value_or(from_seconds(config.lockstep.timeout));
  World world = launch::connect({.deadline = deadline});
  return Run(options, std::move(world), std::move(config))();
}

}  // namespace lockstep::cli
