#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::plan {

/// What the executor does next.  Plain training is the one-stage list; pipeline schedules are other lists.
struct Instruction {
  enum class Kind { load, forward, backward, reduce, update };
  Kind kind = Kind::load;
  int micro_batch = 0;  ///< Within the step; unused by reduce and update.

  bool operator==(const Instruction&) const = default;
};

/// One optimizer step without a pipeline: each micro-batch in turn, then the reduction and the update.
std::vector<Instruction> plain_schedule(int64_t accumulation);

/// "load 0, forward 0, backward 0, reduce, update".
std::string describe(const std::vector<Instruction>& instructions);

}  // namespace lockstep::plan
