#include "lockstep/trace.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>
#include <vector>

namespace lockstep {
namespace {

nlohmann::json events_of(const Trace& trace) {
  return nlohmann::json::parse(Trace::file(trace.events()))["traceEvents"];
}

TEST(Trace, WritesSpansAsChromesEvents) {
  Trace trace(3);
  trace.add(Trace::Lane::compute, "forward", 10, 25);
  trace.add(Trace::Lane::gather, R"(a "layer" \ 1)", 5, 30);
  const nlohmann::json events = events_of(trace);
  std::map<std::string, int> phases;
  for (const auto& event : events) {
    EXPECT_EQ(event["pid"], 3);
    ++phases[event["ph"]];
    if (event["ph"] == "X") {
      EXPECT_EQ(event["name"], "forward");
      EXPECT_EQ(event["ts"], 10);
      EXPECT_EQ(event["dur"], 15);
    }
    if (event["ph"] == "b" || event["ph"] == "e") {
      EXPECT_EQ(event["name"], R"(a "layer" \ 1)");
      EXPECT_EQ(event["ts"], event["ph"] == "b" ? 5 : 30);
    }
  }
  EXPECT_EQ(phases, (std::map<std::string, int>{{"M", 4}, {"X", 1}, {"b", 1}, {"e", 1}}));
}

TEST(Trace, SpansOfAnEmptyPointerAreNothing) { const TraceSpan span(nullptr, Trace::Lane::compute, "forward"); }

TEST(Trace, TakesSpansFromAnyThreadUpToItsLimit) {
  Trace trace(0, 100);
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread)
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) const TraceSpan span(&trace, Trace::Lane::compute, "layer", std::to_string(i));
    });
  for (std::thread& thread : threads) thread.join();
  const nlohmann::json events = events_of(trace);
  EXPECT_EQ(std::count_if(events.begin(), events.end(), [](const auto& event) { return event["ph"] == "X"; }), 100);
}

}  // namespace
}  // namespace lockstep
