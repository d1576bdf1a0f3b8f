#include "plan/instructions.h"

#include <fmt/format.h>

namespace lockstep::plan {

std::vector<Instruction> plain_schedule(int64_t accumulation) {
  using Kind = Instruction::Kind;
  std::vector<Instruction> list;
  for (int micro_batch = 0; micro_batch < accumulation; ++micro_batch)
    for (const Kind kind : {Kind::load, Kind::forward, Kind::backward})
      list.push_back({.kind = kind, .micro_batch = micro_batch});
  list.push_back({.kind = Kind::reduce});
  list.push_back({.kind = Kind::update});
  return list;
}

std::string describe(const std::vector<Instruction>& instructions) {
  using Kind = Instruction::Kind;
  std::string text;
  for (const Instruction& instruction : instructions) {
    if (!text.empty()) text += ", ";
    switch (instruction.kind) {
      case Kind::load:
        text += fmt::format("load {}", instruction.micro_batch);
        break;
      case Kind::forward:
        text += fmt::format("forward {}", instruction.micro_batch);
        break;
      case Kind::backward:
        text += fmt::format("backward {}", instruction.micro_batch);
        break;
      case Kind::reduce:
        text += "reduce";
        break;
      case Kind::update:
        text += "update";
        break;
    }
  }
  return text;
}

}  // namespace lockstep::plan
