#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/files.h"
#include "checkpoint/state.h"
#include "tensor/safetensors.h"

namespace lockstep::checkpoint {

/// A complete checkpoint, open for reading.  Assembles any run of elements from pieces, however many ranks wrote them
/// and however they were cut.  Files are mapped; a file's hash is checked before its first element is used.
/// Used by one thread.  `files` must outlive it.
class Reader {
 public:
  /// tag empty: what DIRECTORY/latest names.  A tag that is missing but whose replaced copy TAG.old is there opens
  /// that one.  Checks that every file is there in its full size.  Throws ConfigError (tag), CheckpointError naming the
  /// path and what was found, IoError.
  static Reader open(base::FileSystem& files, const std::string& directory, const std::string& tag = {});

  [[nodiscard]] const TrainingState& state() const { return manifest_.state; }
  [[nodiscard]] const std::vector<FileRecord>& file_records() const { return manifest_.files; }
  [[nodiscard]] const std::string& path() const { return path_; }  ///< DIRECTORY/TAG.
  /// Every parameter that was saved, and its shape.
  [[nodiscard]] const std::map<std::string, std::vector<int64_t>>& parameters() const { return shapes_; }
  /// The optimizer states that were saved for at least one parameter, such as "exp_avg".
  [[nodiscard]] std::vector<std::string> optimizer_states() const;
  [[nodiscard]] bool has(const std::string& parameter, const std::string& state = {}) const;

  /// Elements [offset, offset + out.size()) of a parameter; of one of its optimizer states where `state` is not empty.
  /// Throws CheckpointError where it is not there or a piece is missing, or its file is damaged.
  void read(const std::string& parameter, const std::string& state, int64_t offset, std::span<float> out);
  /// Text of a file such as config.json; empty where there is none.
  [[nodiscard]] std::string read_extra_file(const std::string& name);
  /// Checks every file's hash.  Throws CheckpointError naming all that differ.
  void verify();

 private:
  struct Piece {
    int64_t numel = 0;
    size_t file = 0;  ///< Index into manifest_.files and pieces_files_.
    std::string name{};
  };
  using Pieces = std::multimap<int64_t, Piece>;  ///< By offset.

  Reader(base::FileSystem& files, std::string path);
  void open_pieces(size_t file);
  /// Empty where the file is as it was written.
  [[nodiscard]] std::string damage(size_t file);
  void check_once(size_t file);
  [[nodiscard]] std::string file_path(size_t file) const { return path_ + "/" + manifest_.files[file].name; }

  base::FileSystem* files_;
  std::string path_;
  Manifest manifest_;
  std::vector<std::unique_ptr<tensor::SafetensorsFile>> pieces_files_;  ///< Null for other files.
  std::vector<bool> checked_;
  std::map<std::string, std::vector<int64_t>> shapes_;
  std::map<std::pair<std::string, std::string>, Pieces> pieces_;  ///< By (state, parameter).
};

}  // namespace lockstep::checkpoint
