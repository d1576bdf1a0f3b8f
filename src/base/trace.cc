#include "lockstep/trace.h"

#include <fmt/format.h>

#include <array>
#include <chrono>
#include <vector>

#include "base/mutex.h"

namespace lockstep {
namespace {

struct Span {
  Trace::Lane lane{};
  std::string name{};
  int64_t begin = 0;
  int64_t end = 0;
};

constexpr std::array kLaneNames{"compute", "reduce gradients", "gather weights"};

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  }
  return out + '"';
}

}  // namespace

struct Trace::State {
  const int rank;
  const int64_t max_spans;
  mutable base::Mutex mutex{};
  std::vector<Span> spans LOCKSTEP_GUARDED_BY(mutex){};
};

Trace::Trace(int rank, int64_t max_spans) : state_(new State{.rank = rank, .max_spans = max_spans}) {}
Trace::~Trace() = default;

int64_t Trace::now() {
  using namespace std::chrono;
  return duration_cast<microseconds>(system_clock::now().time_since_epoch()).count();
}

void Trace::add(Lane lane, std::string name, int64_t begin, int64_t end) {
  const base::MutexLock lock(state_->mutex);
  if (std::ssize(state_->spans) < state_->max_spans)
    state_->spans.push_back({.lane = lane, .name = std::move(name), .begin = begin, .end = end});
}

std::string Trace::events() const {
  const base::MutexLock lock(state_->mutex);
  const int rank = state_->rank;
  std::string text = fmt::format(R"({{"ph":"M","name":"process_name","pid":{0},"args":{{"name":"rank {0}"}}}})", rank);
  for (size_t lane = 0; lane < kLaneNames.size(); ++lane)
    text += fmt::format(
        ",\n"
        R"({{"ph":"M","name":"thread_name","pid":{},"tid":{},"args":{{"name":"{}"}}}})",
        rank, lane, kLaneNames[lane]);
  for (size_t index = 0; index < state_->spans.size(); ++index) {
    const Span& span = state_->spans[index];
    const auto lane = static_cast<int>(span.lane);
    const std::string common = fmt::format(R"("name":{},"pid":{},"tid":{})", quoted(span.name), rank, lane);
    if (span.lane == Lane::compute) {
      text += fmt::format(
          ",\n"
          R"({{"ph":"X",{},"ts":{},"dur":{}}})",
          common, span.begin, span.end - span.begin);
      continue;
    }
    // An asynchronous pair: such spans may overlap.
    for (const auto& [phase, at] : {std::pair('b', span.begin), std::pair('e', span.end)})
      text += fmt::format(
          ",\n"
          R"({{"ph":"{}","cat":"{}","id":"{}.{}",{},"ts":{}}})",
          phase, kLaneNames[static_cast<size_t>(lane)], rank, index, common, at);
  }
  return text;
}

std::string Trace::file(const std::string& events) { return "{\"traceEvents\":[\n" + events + "\n]}\n"; }

}  // namespace lockstep
