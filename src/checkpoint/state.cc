#include "checkpoint/state.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "lockstep/error.h"
#include "lockstep/version.h"

namespace lockstep::checkpoint {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kFormat = "lockstep-checkpoint";

std::string hex(uint64_t value) { return fmt::format("{:016x}", value); }

uint64_t from_hex(const std::string& text) {
  if (text.size() != 16 || text.find_first_not_of("0123456789abcdef") != std::string::npos)
    throw CheckpointError(fmt::format("\"{}\" is not a hash of 16 hexadecimal digits", text));
  return std::stoull(text, nullptr, 16);
}

/// A text that is a JSON object as that object, so that people can read it; any other text as a string.
Json embed(const std::string& text) {
  Json parsed = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  return parsed.is_object() ? parsed : Json(text);
}

std::string extract(const Json& json) { return json.is_string() ? json.get<std::string>() : json.dump(2) + "\n"; }

Json lines(const std::string& text) {
  Json list = Json::array();
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    list.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return list;
}

std::string joined(const Json& list) {
  std::string text;
  for (const auto& line : list) text += line.get<std::string>() + "\n";
  return text;
}

Json to_json(const TrainingState& state) {
  Json json;
  json["format"] = kFormat;
  json["version"] = kFormatVersion;
  json["written_by"] = fmt::format("lockstep {}", version());
  json["steps"] = state.steps;
  json["applied_steps"] = state.applied_steps;
  json["skipped_steps"] = state.skipped_steps;
  json["consecutive_skips"] = state.consecutive_skips;
  json["samples"] = state.samples;
  json["tokens"] = state.tokens;
  json["seed"] = state.seed;
  json["schedule"] = {{"position", state.schedule_position}};
  json["loss_scaler"] = {{"scale", state.loss_scaler.scale},
                         {"steps", state.loss_scaler.steps},
                         {"last_overflow", state.loss_scaler.last_overflow},
                         {"tolerance", state.loss_scaler.tolerance}};
  json["groups"] = Json::array();
  for (const int64_t steps : state.group_steps) json["groups"].push_back({{"applied_steps", steps}});
  json["data"] = {{"micro_step", state.data.micro_step},
                  {"name", state.data.name},
                  {"token_count", state.data.token_count},
                  {"sequence_length", state.data.sequence_length},
                  {"shuffle", state.data.shuffle}};
  json["run"] = {{"world_size", state.run.world_size},
                 {"accumulation", state.run.accumulation},
                 {"reduce_at", state.run.reduce_at},
                 {"half_products", state.run.half_products},
                 {"threads_per_rank", state.run.threads_per_rank},
                 {"simd_level", state.run.simd_level},
                 {"torch_version", state.run.torch_version}};
  json["plan"] = {{"hash", hex(state.plan_hash)}, {"text", lines(state.plan)}};
  json["config"] = embed(state.config);
  json["model"] = embed(state.model);
  return json;
}

TrainingState from_json(const Json& json) {
  TrainingState state;
  json.at("steps").get_to(state.steps);
  json.at("applied_steps").get_to(state.applied_steps);
  json.at("skipped_steps").get_to(state.skipped_steps);
  json.at("consecutive_skips").get_to(state.consecutive_skips);
  json.at("samples").get_to(state.samples);
  json.at("tokens").get_to(state.tokens);
  json.at("seed").get_to(state.seed);
  json.at("schedule").at("position").get_to(state.schedule_position);
  const Json& scaler = json.at("loss_scaler");
  scaler.at("scale").get_to(state.loss_scaler.scale);
  scaler.at("steps").get_to(state.loss_scaler.steps);
  scaler.at("last_overflow").get_to(state.loss_scaler.last_overflow);
  scaler.at("tolerance").get_to(state.loss_scaler.tolerance);
  for (const auto& group : json.at("groups")) state.group_steps.push_back(group.at("applied_steps").get<int64_t>());
  const Json& data = json.at("data");
  data.at("micro_step").get_to(state.data.micro_step);
  data.at("name").get_to(state.data.name);
  data.at("token_count").get_to(state.data.token_count);
  data.at("sequence_length").get_to(state.data.sequence_length);
  data.at("shuffle").get_to(state.data.shuffle);
  const Json& run = json.at("run");
  run.at("world_size").get_to(state.run.world_size);
  run.at("accumulation").get_to(state.run.accumulation);
  run.at("reduce_at").get_to(state.run.reduce_at);
  state.run.half_products = run.value("half_products", "");  // Absent where nothing had 16 bits yet.
  run.at("threads_per_rank").get_to(state.run.threads_per_rank);
  run.at("simd_level").get_to(state.run.simd_level);
  run.at("torch_version").get_to(state.run.torch_version);
  state.plan_hash = from_hex(json.at("plan").at("hash").get<std::string>());
  state.plan = joined(json.at("plan").at("text"));
  state.config = extract(json.at("config"));
  state.model = extract(json.at("model"));
  return state;
}

void check_format(const Json& json) {
  if (!json.is_object() || json.value("format", "") != kFormat)
    throw CheckpointError(fmt::format("\"format\" is not \"{}\": this is not a checkpoint's state", kFormat));
  const auto version = json.at("version").get<int64_t>();
  if (version < 1 || version > kFormatVersion)
    throw CheckpointError(
        fmt::format("format version {}, this Lockstep reads up to {}; use the Lockstep that wrote it "
                    "({}) or a newer one",
                    version, kFormatVersion, json.value("written_by", "unknown")));
}

}  // namespace

std::string to_json_text(const Manifest& manifest) {
  Json json = to_json(manifest.state);
  json["files"] = Json::array();
  for (const FileRecord& file : manifest.files)
    json["files"].push_back({{"name", file.name}, {"bytes", file.bytes}, {"xxh3", hex(file.xxh3)}});
  return json.dump(2) + "\n";
}

Manifest parse_manifest(const std::string& text, const std::string& path) {
  try {
    const Json json = Json::parse(text);
    check_format(json);
    Manifest manifest{.state = from_json(json)};
    for (const auto& file : json.at("files"))
      manifest.files.push_back({.name = file.at("name").get<std::string>(),
                                .bytes = file.at("bytes").get<int64_t>(),
                                .xxh3 = from_hex(file.at("xxh3").get<std::string>())});
    return manifest;
  } catch (const nlohmann::json::exception& error) {
    throw CheckpointError(fmt::format("{}: incomplete or damaged: {}", path, error.what()));
  } catch (const CheckpointError& error) {
    throw CheckpointError(fmt::format("{}: {}", path, error.what()));
  }
}

std::vector<std::string> differences(const RunFacts& there, const RunFacts& here) {
  std::vector<std::string> found;
  const auto compare = [&found](const char* name, const auto& a, const auto& b) {
    if (a != b) found.push_back(fmt::format("{} ({} there, {} here)", name, a, b));
  };
  compare("ranks", there.world_size, here.world_size);
  compare("accumulation", there.accumulation, here.accumulation);
  compare("lockstep.reduce_at", there.reduce_at, here.reduce_at);
  compare("lockstep.half_products", there.half_products, here.half_products);
  compare("threads per rank", there.threads_per_rank, here.threads_per_rank);
  compare("SIMD level", there.simd_level, here.simd_level);
  compare("LibTorch", there.torch_version, here.torch_version);
  return found;
}

}  // namespace lockstep::checkpoint
