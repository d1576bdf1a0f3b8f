#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/files.h"
#include "checkpoint/state.h"
#include "lockstep/communicator.h"

namespace lockstep::checkpoint {

/// A run of one parameter's elements, flattened in row-major order.
struct Piece {
  std::string parameter{};
  std::vector<int64_t> shape{};  ///< The whole parameter's.
  int64_t offset = 0;            ///< Of the first element.
  at::Tensor values{};           ///< 1-D, contiguous, fp32, on the CPU; borrowed until save() returns.
};

/// What one rank saves.  Together the ranks' pieces hold every element once.
struct SaveRequest {
  std::string directory{};
  std::string tag{};
  TrainingState state{};  ///< Rank 0's is written.
  std::vector<Piece> weights{};
  std::map<std::string, std::vector<Piece>> optimizer_states{};  ///< By state name ("exp_avg").
  std::map<std::string, std::string> extra_files{};  ///< Name to text ("config.json"); rank 0's are written.
};

/// Writes DIRECTORY/TAG and moves DIRECTORY/latest to it; docs/formats.md has every byte.  DIRECTORY is shared by all
/// ranks.  Killed anywhere, or on a full disk, it leaves `latest` naming a complete checkpoint, this one or the one
/// before.  Collective; blocks until all is on the device.  Throws on every rank alike: ConfigError (tag; ranks that
/// differ in folder, tag or step), IoError and CheckpointError naming the rank and the file; the run may go on then.
void save(Communicator& group, base::FileSystem& files, const SaveRequest& request);

}  // namespace lockstep::checkpoint
