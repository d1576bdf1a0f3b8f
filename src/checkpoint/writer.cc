#include "checkpoint/writer.h"

#include <fmt/format.h>

#include <array>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>
#include <span>

#include "base/check.h"
#include "checkpoint/hashing_files.h"
#include "checkpoint/names.h"
#include "checkpoint/together.h"
#include "comm/agreement.h"
#include "lockstep/error.h"
#include "tensor/safetensors.h"

namespace lockstep::checkpoint {
namespace {

/// Size and hash of a rank's two files, as the ranks exchange them.
struct Written {
  std::array<int64_t, 2> bytes{};
  std::array<uint64_t, 2> xxh3{};
};

/// A file being put together: tensors in order, and the shapes of the parameters that they are pieces of.
struct PieceFile {
  std::vector<tensor::NamedTensor> tensors{};
  nlohmann::ordered_json shapes = nlohmann::ordered_json::object();

  void add(const std::string& state, const Piece& piece) {
    const int64_t whole = std::accumulate(piece.shape.begin(), piece.shape.end(), int64_t{1}, std::multiplies<>());
    LOCKSTEP_CHECK(piece.values.dim() == 1 && piece.values.is_contiguous());
    LOCKSTEP_CHECK(piece.offset >= 0 && piece.offset + piece.values.numel() <= whole);
    shapes[piece.parameter] = piece.shape;
    tensors.push_back({.name = to_text(PieceName{state, piece.parameter, piece.offset, piece.values.numel()}),
                       .values = piece.values});
  }
};

class Writer {
 public:
  Writer(Communicator& group, base::FileSystem& files, const SaveRequest& request)
      : group_(group),
        files_(files),
        request_(request),
        target_(request.directory + "/" + request.tag),
        temporary_(request.directory + "/." + request.tag + ".tmp") {}

  void prepare();
  void write_own();
  /// Collective: tells rank 0 what the others wrote.
  void exchange_records();
  /// Rank 0: makes the files of all ranks a checkpoint.
  void publish();
  void discard() noexcept;

 private:
  void write(const std::string& name, const PieceFile& content, size_t index);
  void replace_target();

  Communicator& group_;
  base::FileSystem& files_;
  const SaveRequest& request_;
  const std::string target_;
  const std::string temporary_;
  Written written_{};
  std::vector<FileRecord> records_{};
};

void Writer::prepare() {
  if (group_.rank() != 0) return;
  files_.create_directories(request_.directory);
  files_.remove_all(temporary_);
  files_.create_directories(temporary_);
}

void Writer::write(const std::string& name, const PieceFile& content, size_t index) {
  HashingFiles hashing(files_);
  tensor::write_safetensors(hashing, temporary_ + "/" + name, content.tensors,
                            {{"format", "lockstep-pieces"}, {"shapes", content.shapes.dump()}});
  written_.bytes[index] = hashing.last_bytes();
  written_.xxh3[index] = hashing.last_xxh3();
}

void Writer::write_own() {
  PieceFile weights;
  for (const Piece& piece : request_.weights) weights.add("", piece);
  write(weights_file(group_.rank(), group_.size()), weights, 0);
  PieceFile optimizer;
  for (const auto& [state, pieces] : request_.optimizer_states)
    for (const Piece& piece : pieces) optimizer.add(state, piece);
  write(optimizer_file(group_.rank(), group_.size()), optimizer, 1);
}

void Writer::exchange_records() {
  std::vector<Written> all(static_cast<size_t>(group_.size()));
  group_.all_gather_records(std::as_bytes(std::span(&written_, 1)), std::as_writable_bytes(std::span(all)),
                            "sizes and hashes of a checkpoint's files");
  for (int rank = 0; rank < group_.size(); ++rank) {
    const Written& written = all[static_cast<size_t>(rank)];
    records_.push_back({weights_file(rank, group_.size()), written.bytes[0], written.xxh3[0]});
    records_.push_back({optimizer_file(rank, group_.size()), written.bytes[1], written.xxh3[1]});
  }
}

void Writer::replace_target() {
  const std::string old = target_ + kOldSuffix;
  if (files_.exists(target_ + "/" + kStateFile)) {
    files_.remove_all(old);
    files_.rename(target_, old);
  } else {
    // What is not a checkpoint is in the way; one that an earlier save moved aside stays until this one stands.
    files_.remove_all(target_);
  }
  files_.rename(temporary_, target_);
  files_.sync_directory(request_.directory);

  const std::string pointer = request_.directory + "/" + kLatestFile;
  const std::string new_pointer = request_.directory + "/." + kLatestFile + ".tmp";
  files_.write_text(new_pointer, request_.tag + "\n");
  files_.rename(new_pointer, pointer);
  files_.sync_directory(request_.directory);
  files_.remove_all(old);
}

void Writer::publish() {
  Manifest manifest{.state = request_.state, .files = records_};
  for (const FileRecord& file : manifest.files)
    if (!files_.exists(temporary_ + "/" + file.name))
      throw IoError(fmt::format("{}/{}: another rank wrote it and it is not here; all hosts must share the folder {}",
                                temporary_, file.name, request_.directory));
  HashingFiles hashing(files_);
  for (const auto& [name, text] : request_.extra_files) {
    hashing.write_text(temporary_ + "/" + name, text);
    manifest.files.push_back({name, hashing.last_bytes(), hashing.last_xxh3()});
  }
  files_.write_text(temporary_ + "/" + kStateFile, to_json_text(manifest));
  files_.sync_directory(temporary_);
  replace_target();
}

void Writer::discard() noexcept {
  try {
    if (group_.rank() == 0) files_.remove_all(temporary_);
  } catch (const std::exception&) {
    // The first error is the one that counts; the next save removes the folder.
  }
}

}  // namespace

void save(Communicator& group, base::FileSystem& files, const SaveRequest& request) {
  check_tag(request.tag);
  for (const auto& [name, text] : request.extra_files) LOCKSTEP_CHECK(name.find('/') == std::string::npos);
  const std::string subject = fmt::format("{}\n{}\n{}", request.directory, request.tag, request.state.steps);
  comm::verify_agreement(group, xxh3(std::as_bytes(std::span(subject))), "the checkpoint's folder, tag or step");

  Writer writer(group, files, request);
  try {
    run_together(group, [&] { writer.prepare(); });
    run_together(group, [&] { writer.write_own(); });
    writer.exchange_records();
    run_together(group, [&] {
      if (group.rank() == 0) writer.publish();
    });
  } catch (const CommError&) {
    throw;  // Others may still write; the next save removes the folder.
  } catch (...) {
    writer.discard();
    throw;
  }
}

}  // namespace lockstep::checkpoint
