#include "bench.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/units.h"
#include "bench_gemm.h"
#include "bench_roof.h"
#include "bench_rows.h"
#include "bench_timing.h"
#include "bench_train.h"
#include "bench_zero_memory.h"
#include "bench_zero_traffic.h"
#include "exit_codes.h"
#include "launch_ranks.h"
#include "lockstep/error.h"
#include "lockstep/launch.h"
#include "monitor/table.h"

namespace lockstep::cli {
namespace {

void print(const std::string& text) { std::fputs(text.c_str(), stdout); }

void print_lines(const std::vector<BenchRow>& rows) {
  for (const BenchRow& row : rows) print(to_line(row) + "\n");
}

std::string roof_table(const std::vector<BenchRow>& rows) {
  std::vector<std::vector<std::string>> table{{"probe", "with", "rate", "", "of the largest"}};
  for (const BenchRow& row : rows) {
    std::string with;
    std::vector<std::string> cells{row.at("name").get<std::string>().substr(5), "", "", "", ""};
    for (const auto& [key, value] : row.items()) {
      if (key == "frac") {
        cells[4] = fmt::format("{:.2f}", value.get<double>());
      } else if (key == "GBs" || key == "GFLOPs" || key == "GHz" || key == "round_trip_us") {
        cells[2] = fmt::format("{:.3g}", value.get<double>());
        cells[3] = key == "GBs" ? "GB/s" : key == "GFLOPs" ? "GFLOP/s" : key == "GHz" ? "GHz" : "us";
      } else if (key == "bytes" || key == "block") {
        with += fmt::format("{}{} {}", with.empty() ? "" : ", ", key, base::format_bytes(value.get<int64_t>()));
      } else if (key != "name" && key != "isa" && !key.starts_with("roof")) {
        with += fmt::format("{}{} {}", with.empty() ? "" : ", ", key,
                            value.is_string() ? value.get<std::string>() : value.dump());
      }
    }
    cells[1] = with;
    table.push_back(std::move(cells));
  }
  return to_columns(table);
}

std::string train_table(const BenchRow& row) {
  const auto number = [&](const char* key) { return fmt::format("{:.4g}", row.at(key).get<double>()); };
  const auto bytes = [&](const char* key) { return base::format_bytes(row.at(key).get<int64_t>()); };
  const bool steady = row.at("steady").get<bool>();
  return monitor::format_table(
      fmt::format("{}, {} parameters, {} x {} x {} tokens a step, {} threads, {}", row.at("model").get<std::string>(),
                  base::format_count(row.at("parameters").get<int64_t>()), row.at("accum").dump(),
                  row.at("micro").dump(), row.at("seq").dump(), row.at("threads").dump(),
                  row.at("isa").get<std::string>()),
      {{"speed", number("tokens_per_s") + " tokens/s", fmt::format("mean of {} steps", row.at("steps").dump())},
       {"step", number("ms_step") + " ms",
        fmt::format("median; {} to {}", number("ms_step_min"), number("ms_step_max"))},
       {"matrix products", number("gflop_step") + " GFLOP", fmt::format("a step; {} GFLOP/s", number("GFLOPs"))},
       {"of the roof", number("frac"),
        fmt::format("matrix products alone: {} GFLOP/s before, {} after{}", number("roof_before"), number("roof_after"),
                    steady ? "" : "; it moved, so measure again on a quieter host")},
       {"memory", bytes("peak_bytes"), fmt::format("of tensors at most; {} resident", bytes("peak_rss_bytes"))},
       {"page faults", number("faults_step"), "a step"},
       {"first step", number("first_step_s") + " s", fmt::format("after {} s of building", number("build_s"))},
       {"loss", number("last_loss"), fmt::format("from {}", number("first_loss"))}});
}

void add_roof(CLI::App& bench, int& exit_code) {
  CLI::App* command = bench.add_subcommand("roof", "What this host can do at most: memory, arithmetic, disk, channels");
  command->footer("Example: lockstep bench roof --quick --folder /data");
  auto options = std::make_shared<RoofOptions>();
  auto json = std::make_shared<bool>(false);
  options->threads = {1};
  for (const auto cores = static_cast<int>(allowed_cpus().size()); options->threads.back() < cores;)
    options->threads.push_back(std::min(cores, 2 * options->threads.back()));
  command
      ->add_option("--threads", options->threads, "Numbers of threads, as 1,2; default: powers of two up to the cores")
      ->delimiter(',')
      ->check(CLI::Range(1, 4096));
  command->add_option("--folder", options->folder, "Where the disk is measured, with a file that vanishes")
      ->check(CLI::ExistingDirectory);
  command->add_flag("--quick", options->quick, "Smaller sizes, under ten seconds on an idle host");
  command->add_flag("--json", *json, "Print one JSON array");
  command->callback([options, json, &exit_code] {
    exit_code = guarded([&] {
      const std::vector<BenchRow> rows = measure_roof(*options);
      print(*json ? to_json_text(rows) : roof_table(rows) + "\n");
      if (!*json) print_lines(rows);
      return kDone;
    });
  });
}

void add_train(CLI::App& bench, int& exit_code) {
  CLI::App* command =
      bench.add_subcommand("train", "Whole training steps on random tokens, AdamW with clipping, one rank");
  command->footer("Example: lockstep bench train --layers 12 --width 768 --heads 12 --micro 4");
  auto options = std::make_shared<TrainBenchOptions>();
  auto json = std::make_shared<bool>(false);
  CLI::Option* model = command->add_option("--model", options->model, "A preset or a folder; default gpt2-nano");
  const auto add = [&](const char* name, int64_t& value, const char* about) {
    return command->add_option(name, value, about)->check(CLI::PositiveNumber);
  };
  add("--layers", options->layers, "Of a GPT-2 instead of --model; default 6")->excludes(model);
  add("--width", options->width, "default 384")->excludes(model);
  add("--heads", options->heads, "default 6")->excludes(model);
  add("--vocab", options->vocabulary, "default 256")->excludes(model);
  add("--seq", options->sequence_length, "Tokens in a sequence; default: the model's maximum");
  add("--micro", options->micro_batch, "Sequences in a micro-batch; default 8");
  add("--accum", options->accumulation, "Micro-batches in a step; default 1");
  add("--steps", options->steps, "Steps to measure; default 20");
  add("--warm", options->warm_up, "Steps before them; default 4");
  command->add_option("--precision", options->precision, "fp32 (default), bf16 or fp16")
      ->check(CLI::IsMember({"fp32", "bf16", "fp16"}));
  command->add_option("--products", options->products, "Of 16-bit matrices: auto (default), native or widened")
      ->check(CLI::IsMember({"auto", "native", "widened"}));
  command->add_option("--threads", options->threads, "default: one for each core")->check(CLI::Range(1, 4096));
  command->add_flag("--quick", options->quick, "A smaller matrix product as the roof");
  command->add_flag("--json", *json, "Print one JSON array");
  command->callback([options, json, &exit_code] {
    exit_code = guarded([&] {
      const std::vector<BenchRow> rows = measure_training(*options);
      print(*json ? to_json_text(rows) : train_table(rows.front()) + "\n");
      if (!*json) print_lines(rows);
      return kDone;
    });
  });
}

void add_gemm(CLI::App& bench, int& exit_code) {
  CLI::App* command = bench.add_subcommand(
      "gemm", "Matrix products of 16-bit floats, native and widened to fp32, against the table that chooses");
  command->footer("Example: lockstep bench gemm --types bf16 --width 384 --threads 1");
  auto options = std::make_shared<GemmBenchOptions>();
  auto json = std::make_shared<bool>(false);
  command->add_option("--types", options->types, "default bf16,fp16")
      ->delimiter(',')
      ->check(CLI::IsMember({"bf16", "fp16"}));
  command->add_option("--tokens", options->tokens, "Tokens of a micro-batch; default 2048")
      ->check(CLI::Range(4, 1 << 20));
  command->add_option("--width", options->width, "Of the model; default 768")->check(CLI::PositiveNumber);
  command->add_option("--classes", options->classes, "default 8192")->check(CLI::PositiveNumber);
  command->add_option("--threads", options->threads, "default: one for each core")->check(CLI::Range(1, 4096));
  command->add_flag("--json", *json, "Print one JSON array");
  command->callback([options, json, &exit_code] {
    exit_code = guarded([&] {
      const std::vector<BenchRow> rows = measure_gemm(*options);
      print(*json ? to_json_text(rows) : gemm_table(rows) + "\n");
      if (!*json) print_lines(rows);
      return kDone;
    });
  });
}

/// Every number of ranks in processes of their own, which start this program again with --rows.
int launch_zero_memory(const std::vector<int>& worlds, std::vector<std::string> arguments,
                       std::vector<BenchRow>& rows) {
  const std::filesystem::path file =
      std::filesystem::temp_directory_path() / fmt::format("lockstep_zero_mem_{}.json", ::getpid());
  arguments.insert(arguments.end(), {"--rows", file.string()});
  for (const int ranks : worlds) {
    const int code = launch_ranks(ranks, arguments);
    if (code != kDone) return code;
    for (const BenchRow& row : BenchRow::parse(base::host_files().read_text(file.string()))) rows.push_back(row);
    std::filesystem::remove(file);
  }
  return kDone;
}

void add_zero_memory(CLI::App& bench, int& exit_code) {
  CLI::App* command = bench.add_subcommand(
      "zero_mem", "Bytes of training state a rank holds for each parameter, stages 0-3, against ZeRO's formulas");
  command->footer("Example: lockstep bench zero_mem --ranks 1,2,4 --layers 2,4,6 --width 512");
  auto options = std::make_shared<ZeroMemoryOptions>();
  auto ranks = std::make_shared<std::vector<int>>(std::vector{1, 2, 4});
  auto rows_file = std::make_shared<std::string>();
  auto json = std::make_shared<bool>(false);
  command->add_option("--ranks", *ranks, "Numbers of processes; default 1,2,4")
      ->delimiter(',')
      ->check(CLI::Range(1, 64));
  command->add_option("--layers", options->layers, "Depths of a GPT-2, two or more, from 2 on; default 2,4,6")
      ->delimiter(',')
      ->check(CLI::PositiveNumber);
  command->add_option("--width", options->width, "default 256")->check(CLI::PositiveNumber);
  command->add_option("--precision", options->precision, "fp32 (default), bf16 or fp16")
      ->check(CLI::IsMember({"fp32", "bf16", "fp16"}));
  command->add_flag("--json", *json, "Print one JSON array");
  command->add_option("--rows", *rows_file)->group("");  // For the processes that it starts: measure as a rank.
  command->callback([=, &exit_code] {
    exit_code = guarded([&]() -> int {
      if (!rows_file->empty()) {
        const World world = launch::connect();
        const std::vector<BenchRow> rows = measure_zero_memory(world, *options);
        if (world.rank == 0) base::host_files().write_text(*rows_file, to_json_text(rows));
        return kDone;
      }
      std::vector<BenchRow> rows;
      const int code =
          launch_zero_memory(*ranks,
                             {"bench", "zero_mem", "--layers", fmt::format("{}", fmt::join(options->layers, ",")),
                              "--width", fmt::format("{}", options->width), "--precision", options->precision},
                             rows);
      if (code != kDone) return code;
      print(*json ? to_json_text(rows) : zero_memory_tables(rows) + "\n");
      if (!*json) print_lines(rows);
      return kDone;
    });
  });
}

void add_zero_traffic(CLI::App& bench, int& exit_code) {
  CLI::App* command = bench.add_subcommand(
      "zero_comm", "Bytes and collectives of a step, stages 0-3, against an all-reduce of all gradients");
  command->footer("Example: lockstep bench zero_comm --ranks 4 --bucket 1000000");
  auto options = std::make_shared<ZeroTrafficOptions>();
  auto json = std::make_shared<bool>(false);
  command->add_option("--ranks", options->ranks, "Numbers of ranks, threads of one process; default 2,4")
      ->delimiter(',')
      ->check(CLI::Range(2, 64));
  command->add_option("--bucket", options->buckets, "Sizes of a bucket in elements; default 65536,1000000,500000000")
      ->delimiter(',')
      ->check(CLI::PositiveNumber);
  command->add_option("--layers", options->layers, "Of a GPT-2; default 6")->check(CLI::PositiveNumber);
  command->add_option("--width", options->width, "default 256")->check(CLI::PositiveNumber);
  command->add_option("--small-layers", options->small_layers, "Of another one, 64 wide; default 200")
      ->check(CLI::PositiveNumber);
  command->add_flag("--json", *json, "Print one JSON array");
  command->callback([options, json, &exit_code] {
    exit_code = guarded([&] {
      const std::vector<BenchRow> rows = measure_zero_traffic(*options);
      print(*json ? to_json_text(rows) : zero_traffic_table(rows) + "\n");
      if (!*json) print_lines(rows);
      return kDone;
    });
  });
}

}  // namespace

void add_bench_command(CLI::App& app, int& exit_code) {
  CLI::App* bench = app.add_subcommand("bench", "Measures this host and this build");
  bench->footer("Example: lockstep bench train --layers 12 --width 768 --heads 12 --micro 4");
  bench->require_subcommand(1);
  add_roof(*bench, exit_code);
  add_train(*bench, exit_code);
  add_gemm(*bench, exit_code);
  add_zero_memory(*bench, exit_code);
  add_zero_traffic(*bench, exit_code);
}

}  // namespace lockstep::cli
