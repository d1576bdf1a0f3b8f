#include "checkpoint/together.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lockstep/error.h"

namespace lockstep::checkpoint {
namespace {

enum class Kind : int32_t { none, io, checkpoint, config };

/// How one rank's part went, in a fixed size.
struct Outcome {
  Kind kind = Kind::none;
  std::array<char, 1020> message{};
};

Outcome failure(Kind kind, const std::exception& error) {
  Outcome outcome{.kind = kind};
  const size_t length = std::min(std::strlen(error.what()), outcome.message.size() - 1);
  std::memcpy(outcome.message.data(), error.what(), length);
  return outcome;
}

Outcome outcome_of(const std::function<void()>& part) {
  try {
    part();
    return {};
  } catch (const CommError&) {
    throw;
  } catch (const IoError& error) {
    return failure(Kind::io, error);
  } catch (const ConfigError& error) {
    return failure(Kind::config, error);
  } catch (const std::exception& error) {
    return failure(Kind::checkpoint, error);
  }
}

[[noreturn]] void rethrow(const Outcome& outcome, int rank, int size) {
  const std::string text =
      size == 1 ? outcome.message.data() : fmt::format("rank {}: {}", rank, outcome.message.data());
  if (outcome.kind == Kind::io) throw IoError(text);
  if (outcome.kind == Kind::config) throw ConfigError(text);
  throw CheckpointError(text);
}

}  // namespace

void run_together(Communicator& group, const std::function<void()>& part) {
  const Outcome mine = outcome_of(part);
  std::vector<Outcome> all(static_cast<size_t>(group.size()));
  group.all_gather_records(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)),
                           "a checkpoint, which all ranks save or load together");
  for (int rank = 0; rank < group.size(); ++rank)
    if (all[static_cast<size_t>(rank)].kind != Kind::none) rethrow(all[static_cast<size_t>(rank)], rank, group.size());
}

}  // namespace lockstep::checkpoint
