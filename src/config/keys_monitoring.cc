#include "config/choices.h"

namespace lockstep::config {
namespace {

void declare_files(KeyList& list, const char* name, const char* meaning, const char* switch_path,
                   FileMonitorConfig& c) {
  list.open(name, meaning);
  list("enabled", c.enabled, {.meaning = "The switch."});
  list("output_path", c.output_path, {.meaning = "Folder; empty: the working directory.", .only_if = switch_path});
  list("job_name", c.job_name, {.meaning = "Folder inside output_path.", .only_if = switch_path});
  list.close();
}

}  // namespace

void declare_monitoring(KeyList& list, Config& c) {
  declare_files(list, "tensorboard", "Event files for TensorBoard.", "tensorboard.enabled", c.tensorboard);
  declare_files(list, "csv_monitor", "One CSV file per measured value.", "csv_monitor.enabled", c.csv_monitor);

  list.open("wandb", "Weights & Biases.");
  list("enabled", c.wandb.enabled, {.meaning = "The switch."});
  list("group", c.wandb.group, {.meaning = "Group of runs.", .only_if = "wandb.enabled"});
  list("team", c.wandb.team, {.meaning = "Team.", .only_if = "wandb.enabled"});
  list("project", c.wandb.project, {.meaning = "Project.", .only_if = "wandb.enabled"});
  list.close();

  list.open("comet", "Comet.");
  list("enabled", c.comet.enabled, {.meaning = "The switch."});
  list("samples_log_interval", c.comet.samples_log_interval,
       {.meaning = "Samples between reports.", .range = kAtLeastOne, .only_if = "comet.enabled"});
  list("project", c.comet.project, {.meaning = "Project.", .only_if = "comet.enabled"});
  list("workspace", c.comet.workspace, {.meaning = "Workspace.", .only_if = "comet.enabled"});
  list("api_key", c.comet.api_key, {.meaning = "Key of the account.", .only_if = "comet.enabled"});
  list("experiment_name", c.comet.experiment_name, {.meaning = "Name of the run.", .only_if = "comet.enabled"});
  list("experiment_key", c.comet.experiment_key,
       {.meaning = "Key of a run to go on with.", .only_if = "comet.enabled"});
  list("online", c.comet.online, {.meaning = "Sends at once.", .only_if = "comet.enabled"});
  list("mode", c.comet.mode, {.meaning = "get, create or get_or_create.", .only_if = "comet.enabled"});
  list.close();

  list.open("comms_logger", "Records every transfer: operation, bytes, time, bandwidth.");
  list("enabled", c.comms_logger.enabled, {.meaning = "The switch."});
  list("verbose", c.comms_logger.verbose, {.meaning = "Prints each one.", .only_if = "comms_logger.enabled"});
  list("prof_all", c.comms_logger.prof_all,
       {.meaning = "Records all operations, not only prof_ops.", .only_if = "comms_logger.enabled"});
  list("debug", c.comms_logger.debug, {.meaning = "Names the caller.", .only_if = "comms_logger.enabled"});
  list("prof_ops", c.comms_logger.prof_ops,
       {.meaning = "Operations recorded where prof_all is false.", .only_if = "comms_logger.enabled"});
  list.close();

  constexpr const char* kProfiler = "flops_profiler.enabled";
  list.open("flops_profiler", "Counts the operations of one forward. Switches wall_clock_breakdown on.");
  list("enabled", c.flops_profiler.enabled, {.meaning = "The switch."});
  list("recompute_fwd_factor", c.flops_profiler.recompute_fwd_factor,
       {.meaning = "Share of the forward that is computed again.", .range = kAtLeastZero, .only_if = kProfiler});
  list("profile_step", c.flops_profiler.profile_step,
       {.meaning = "The step that is measured.", .range = kAtLeastOne, .only_if = kProfiler});
  list("module_depth", c.flops_profiler.module_depth,
       {.meaning = "Depth of modules shown; -1: all.", .range = {.low = -1}, .only_if = kProfiler});
  list("top_modules", c.flops_profiler.top_modules,
       {.meaning = "Modules shown per depth.", .range = kAtLeastOne, .only_if = kProfiler});
  list("detailed", c.flops_profiler.detailed, {.meaning = "Prints the whole profile.", .only_if = kProfiler});
  list("output_file", c.flops_profiler.output_file,
       {.meaning = "Where it is written; absent: the log.", .only_if = kProfiler});
  list.close();

  list.open("timers", "Timing that is always on.");
  list.open("throughput", "The line with samples and operations per second.");
  list("enabled", c.timers.throughput.enabled, {.meaning = "The switch."});
  list("synchronized", c.timers.throughput.synchronized,
       {.meaning = "Waits for the device around the timer.",
        .inert = "a step ends with the host reading its result, so its time is exact",
        .only_if = "timers.throughput.enabled"});
  list.close();
  list.close();
}

}  // namespace lockstep::config
