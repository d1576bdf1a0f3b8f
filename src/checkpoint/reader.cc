#include "checkpoint/reader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "checkpoint/hashing_files.h"
#include "checkpoint/names.h"
#include "lockstep/error.h"

namespace lockstep::checkpoint {
namespace {

constexpr size_t kMostNames = 20;  // In a message.

/// What a folder holds, for messages: "found: global_step10, global_step20".
std::string found_in(const std::string& directory) {
  std::error_code error;
  if (!std::filesystem::is_directory(directory, error)) return "there is no such folder";
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error))
    names.push_back(entry.path().filename().string());
  if (names.empty()) return "the folder is empty";
  std::sort(names.begin(), names.end());
  const size_t count = names.size();
  names.resize(std::min(count, kMostNames));
  return fmt::format("the folder holds {}{}", fmt::join(names, ", "), count > kMostNames ? ", ..." : "");
}

std::string read_latest(base::FileSystem& files, const std::string& directory) {
  const std::string pointer = directory + "/" + kLatestFile;
  if (!files.exists(pointer))
    throw CheckpointError(fmt::format("{}: there is no checkpoint here, no file \"{}\" names one; {}", directory,
                                      kLatestFile, found_in(directory)));
  std::string tag = files.read_text(pointer);
  while (!tag.empty() && (tag.back() == '\n' || tag.back() == '\r' || tag.back() == ' ')) tag.pop_back();
  try {
    check_tag(tag);
  } catch (const ConfigError& error) {
    throw CheckpointError(fmt::format("{}: names no checkpoint: {}", pointer, error.what()));
  }
  return tag;
}

/// The folder of the checkpoint that goes by a tag.
std::string resolve(base::FileSystem& files, const std::string& directory, const std::string& tag) {
  for (const std::string& path : {directory + "/" + tag, directory + "/" + tag + kOldSuffix})
    if (files.exists(path + "/" + kStateFile)) return path;
  const std::string path = directory + "/" + tag;
  if (files.exists(path))
    throw CheckpointError(
        fmt::format("{}: not a complete checkpoint, {} is missing; {}", path, kStateFile, found_in(path)));
  throw CheckpointError(fmt::format("{}: no such checkpoint; in {} {}", path, directory, found_in(directory)));
}

bool is_piece_file(const std::string& name, const char* kind) {
  return name.starts_with(kind) && name.ends_with(".safetensors");
}

}  // namespace

Reader Reader::open(base::FileSystem& files, const std::string& directory, const std::string& tag) {
  if (!tag.empty()) check_tag(tag);
  return Reader(files, resolve(files, directory, tag.empty() ? read_latest(files, directory) : tag));
}

Reader::Reader(base::FileSystem& files, std::string path) : files_(&files), path_(std::move(path)) {
  const std::string state_path = path_ + "/" + kStateFile;
  manifest_ = parse_manifest(files.read_text(state_path), state_path);
  pieces_files_.resize(manifest_.files.size());
  checked_.resize(manifest_.files.size());
  for (size_t file = 0; file < manifest_.files.size(); ++file) {
    const FileRecord& record = manifest_.files[file];
    if (!files.exists(file_path(file)))
      throw CheckpointError(fmt::format("{}: missing, {} names it; {}", file_path(file), kStateFile, found_in(path_)));
    const auto bytes = static_cast<int64_t>(files.map(file_path(file))->bytes().size());
    if (bytes != record.bytes)
      throw CheckpointError(
          fmt::format("{}: has {} bytes, {} were written: cut short or damaged", file_path(file), bytes, record.bytes));
    if (is_piece_file(record.name, "weights-") || is_piece_file(record.name, "optimizer-")) open_pieces(file);
  }
}

void Reader::open_pieces(size_t file) {
  pieces_files_[file] = std::make_unique<tensor::SafetensorsFile>(*files_, file_path(file));
  const tensor::SafetensorsFile& content = *pieces_files_[file];
  const bool optimizer = is_piece_file(manifest_.files[file].name, "optimizer-");
  const auto malformed = [&](const std::string& problem) {
    throw CheckpointError(
        fmt::format("{}: {}; it was not written by Lockstep or is damaged", file_path(file), problem));
  };
  for (const auto& [name, entry] : content.entries()) {
    const std::optional<PieceName> piece = parse_piece_name(name, optimizer);
    if (!piece || entry.dtype != "F32" || entry.shape != std::vector<int64_t>{piece->numel})
      malformed(fmt::format("\"{}\" is not a flat piece in fp32", name));
    Pieces& pieces = pieces_[{piece->state, piece->parameter}];
    if (piece->numel > 0) pieces.emplace(piece->offset, Piece{piece->numel, file, name});
  }
  if (optimizer) return;
  const auto shapes = content.metadata().find("shapes");
  const auto json = shapes == content.metadata().end()
                        ? nlohmann::json()
                        : nlohmann::json::parse(shapes->second, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) malformed("its metadata has no shapes");
  try {
    for (const auto& [name, shape] : json.items()) shapes_[name] = shape.get<std::vector<int64_t>>();
  } catch (const nlohmann::json::exception& error) {
    malformed(error.what());
  }
}

std::vector<std::string> Reader::optimizer_states() const {
  std::set<std::string> names;
  for (const auto& [key, pieces] : pieces_)
    if (!key.first.empty()) names.insert(key.first);
  return {names.begin(), names.end()};
}

bool Reader::has(const std::string& parameter, const std::string& state) const {
  return pieces_.contains({state, parameter});
}

void Reader::read(const std::string& parameter, const std::string& state, int64_t offset, std::span<float> out) {
  const auto found = pieces_.find({state, parameter});
  const std::string what = state.empty() ? parameter : state + " of " + parameter;
  if (found == pieces_.end())
    throw CheckpointError(fmt::format("{}: has no {}; it was saved from another model{}", path_, what,
                                      state.empty() ? "" : " or with another optimizer"));
  const Pieces& pieces = found->second;
  const int64_t end = offset + static_cast<int64_t>(out.size());
  // Pieces lie in order of offset; the last that starts at or before a position holds it.
  for (int64_t at = offset; at < end;) {
    auto next = pieces.upper_bound(at);
    const auto holds = [at](const auto& piece) { return piece.first <= at && at < piece.first + piece.second.numel; };
    if (next == pieces.begin() || !holds(*std::prev(next)))
      throw CheckpointError(
          fmt::format("{}: {} lacks elements from {} on; it was saved from another model or a file of "
                      "a rank is not the one that was written",
                      path_, what, at));
    const auto& [begin, piece] = *std::prev(next);
    check_once(piece.file);
    const int64_t count = std::min(end, begin + piece.numel) - at;
    const auto bytes = pieces_files_[piece.file]->bytes(piece.name);
    std::memcpy(out.data() + (at - offset), bytes.data() + static_cast<size_t>(at - begin) * sizeof(float),
                static_cast<size_t>(count) * sizeof(float));
    at += count;
  }
}

std::string Reader::damage(size_t file) {
  const uint64_t hash = xxh3(files_->map(file_path(file))->bytes());
  checked_[file] = true;
  if (hash == manifest_.files[file].xxh3) return {};
  return fmt::format("{}: its bytes are not the ones that were written (xxh3 {:016x}, {:016x} was written): damaged",
                     file_path(file), hash, manifest_.files[file].xxh3);
}

void Reader::check_once(size_t file) {
  if (checked_[file]) return;
  if (const std::string problem = damage(file); !problem.empty()) {
    checked_[file] = false;
    throw CheckpointError(problem);
  }
}

std::string Reader::read_extra_file(const std::string& name) {
  for (size_t file = 0; file < manifest_.files.size(); ++file) {
    if (manifest_.files[file].name != name) continue;
    check_once(file);
    return files_->read_text(file_path(file));
  }
  return {};
}

void Reader::verify() {
  std::vector<std::string> problems;
  for (size_t file = 0; file < manifest_.files.size(); ++file)
    if (std::string problem = damage(file); !problem.empty()) problems.push_back(std::move(problem));
  if (!problems.empty()) throw CheckpointError(fmt::format("{}", fmt::join(problems, "\n")));
}

}  // namespace lockstep::checkpoint
