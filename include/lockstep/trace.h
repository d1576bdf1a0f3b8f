#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "lockstep/export.h"

namespace LOCKSTEP_API lockstep {

/// A time line of one rank: what each lane did, from when to when.  Recorded in memory; used from any thread.
class Trace {
 public:
  /// Lanes are drawn one below the other.  Spans of `compute` nest; those of the others may overlap.
  enum class Lane {
    compute,  ///< The thread that trains: forward of each layer, backward, update, and waits for transfers.
    reduce,   ///< Gradients' buckets, from full to reduced.
    gather,   ///< Units' weights, from asked for to whole.
  };

  /// Keeps the first `max_spans` spans and drops the rest.
  explicit Trace(int rank, int64_t max_spans = 1'000'000);
  ~Trace();
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  /// Microseconds since 1970, by which ranks of one host agree.
  [[nodiscard]] static int64_t now();
  void add(Lane lane, std::string name, int64_t begin, int64_t end);
  /// The spans so far as events of Chrome's trace format, separated by commas: the rank is the process, lanes are its
  /// threads.
  [[nodiscard]] std::string events() const;
  /// A whole file from the events of every rank, for chrome://tracing or ui.perfetto.dev.
  [[nodiscard]] static std::string file(const std::string& events);

 private:
  struct State;
  const std::unique_ptr<State> state_;
};

/// A span from its construction to its end.  Null trace: nothing.
class TraceSpan {
 public:
  TraceSpan(Trace* trace, Trace::Lane lane, std::string_view verb, std::string_view what = {})
      : trace_(trace), lane_(lane) {
    if (trace_ == nullptr) return;
    name_.append(verb).append(what.empty() ? "" : " ").append(what);
    begin_ = Trace::now();
  }
  ~TraceSpan() {
    if (trace_ != nullptr) trace_->add(lane_, std::move(name_), begin_, Trace::now());
  }
  TraceSpan(const TraceSpan&) = delete;
  TraceSpan& operator=(const TraceSpan&) = delete;

 private:
  Trace* const trace_;
  const Trace::Lane lane_;
  std::string name_;
  int64_t begin_ = 0;
};

}  // namespace lockstep
