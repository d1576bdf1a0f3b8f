#include "comm/local/local_group.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "comm/agreement.h"
#include "comm/exercise.h"
#include "lockstep/error.h"

namespace lockstep::comm {
namespace {

using std::chrono::milliseconds;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr LocalOptions kImpatient{.deadline = milliseconds(200)};

template <class Fn>
std::string error_of(Fn fn) {
  try {
    fn();
  } catch (const CommError& error) {
    return error.what();
  }
  return "no CommError";
}

class LocalGroup : public testing::TestWithParam<int> {};

TEST_P(LocalGroup, EveryOperationIsRight) {
  run_ranks(GetParam(), [](Communicator& group) { exercise(group); });
}

TEST_P(LocalGroup, SplitGroupsAreRight) {
  run_ranks(GetParam(), [](Communicator& group) { exercise_splits(group); });
}

TEST_P(LocalGroup, RandomDelaysChangeNoBit) {
  std::vector<uint64_t> digests(static_cast<size_t>(GetParam()));
  for (const uint64_t seed : {0U, 1U, 2U}) {
    const LocalOptions options{.max_delay = std::chrono::microseconds(seed == 0 ? 0 : 100), .seed = seed};
    run_ranks(
        GetParam(),
        [&](Communicator& group) {
          const uint64_t digest = exercise(group);
          auto& first = digests[static_cast<size_t>(group.rank())];
          if (seed == 0) first = digest;
          LOCKSTEP_REQUIRE(digest == first);
        },
        options);
  }
  for (const uint64_t digest : digests) EXPECT_EQ(digest, digests.front());
}

INSTANTIATE_TEST_SUITE_P(Worlds, LocalGroup, testing::Values(1, 2, 3, 4));

TEST(LocalGroup, ReceiveMeetsTheDeadlineAndNamesEverything) {
  auto ranks = local_group(2, kImpatient);
  at::Tensor tensor = at::empty({10}, at::kFloat);
  const auto start = std::chrono::steady_clock::now();
  const std::string error =
      error_of([&] { ranks[0]->start_receive(tensor, 1, {.tag = 5, .what = "gradients of layer 3"}).wait(); });
  EXPECT_GE(std::chrono::steady_clock::now() - start, milliseconds(200));
  EXPECT_THAT(error, HasSubstr("rank 0: waited 0.2 s to receive gradients of layer 3 from rank 1 (40 bytes, tag 5)"));
}

TEST(LocalGroup, SendMeetsTheDeadline) {
  auto ranks = local_group(2, kImpatient);
  EXPECT_THAT(error_of([&] { ranks[1]->start_send(at::ones({1}), 0, {.tag = 1, .what = "x"}).wait(); }),
              HasSubstr("rank 1: waited 0.2 s to send x to rank 0 (4 bytes, tag 1)"));
}

TEST(LocalGroup, AFailureEndsTheCommunicatorItsGroupsAndItsPeers) {
  auto ranks = local_group(3, kImpatient);
  std::vector<std::unique_ptr<Communicator>> pairs;
  for (auto& rank : ranks) pairs.push_back(rank->split({0, 1}));
  at::Tensor tensor = at::empty({1}, at::kFloat);
  const std::string first = error_of([&] { ranks[0]->start_receive(tensor, 2, {.tag = 1, .what = "x"}).wait(); });
  EXPECT_THAT(first, HasSubstr("rank 2"));
  // Everything after it tells the first failure, at once, also of other ranks' transfers and of other groups.
  EXPECT_EQ(error_of([&] { ranks[0]->barrier("y"); }), first);
  EXPECT_EQ(error_of([&] { (void)ranks[0]->start_send(tensor, 1, {.tag = 2, .what = "z"}); }), first);
  EXPECT_EQ(error_of([&] { pairs[0]->broadcast(tensor, 0, "z"); }), first);
  // Its peers do not wait for their own deadline.
  const auto start = std::chrono::steady_clock::now();
  EXPECT_THAT(error_of([&] { ranks[1]->start_receive(tensor, 0, {.tag = 1, .what = "x"}).wait(); }),
              HasSubstr("rank 1: could not receive x from rank 0"));
  EXPECT_LT(std::chrono::steady_clock::now() - start, milliseconds(150));
}

TEST(LocalGroup, ADeadlineOfOneThreadEndsTheWaitsOfOthers) {
  auto ranks = local_group(3, kImpatient);
  at::Tensor a = at::empty({1}, at::kFloat);
  at::Tensor b = at::empty({1}, at::kFloat);
  auto from_1 = ranks[0]->start_receive(a, 1, {.tag = 1, .what = "a"});
  std::string other;
  std::thread thread([&] {
    std::this_thread::sleep_for(milliseconds(100));
    other = error_of([&] { ranks[0]->start_receive(b, 2, {.tag = 1, .what = "b"}).wait(); });
  });
  const std::string first = error_of([&] { from_1.wait(); });
  thread.join();
  EXPECT_THAT(first, HasSubstr("receive a from rank 1"));
  EXPECT_EQ(other, first);
}

TEST(LocalGroup, ARankThatThrowsEndsTheOthersAndIsReportedFirst) {
  std::atomic<int> others{0};
  try {
    run_ranks(4, [&](Communicator& group) {
      group.barrier("start");
      if (group.rank() == 2) throw std::runtime_error("rank 2 is ill");
      try {
        group.barrier("end");
      } catch (const CommError&) {
        ++others;
        throw;
      }
    });
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "rank 2 is ill");
  }
  EXPECT_EQ(others, 3);
}

TEST(LocalGroup, RanksThatMakeDifferentCallsMeetTheDeadline) {
  std::vector<std::string> errors(2);
  run_ranks(
      2,
      [&](Communicator& group) {
        errors[static_cast<size_t>(group.rank())] =
            error_of([&] { group.barrier(group.rank() == 0 ? "saving a checkpoint" : "the next step"); });
      },
      kImpatient);
  // One of them may see the other leave first.
  EXPECT_THAT(errors, testing::Contains(AllOf(HasSubstr("waited 0.2 s"), HasSubstr("every rank must make this call"))));
  EXPECT_THAT(errors[0], HasSubstr("saving a checkpoint"));
  EXPECT_THAT(errors[1], HasSubstr("the next step"));
}

TEST(LocalGroup, LengthsThatDifferAreAnErrorOnBothSides) {
  std::vector<std::string> errors(2);
  run_ranks(2, [&](Communicator& group) {
    at::Tensor tensor = at::zeros({group.rank() == 0 ? 100 : 50});
    errors[static_cast<size_t>(group.rank())] = error_of([&] {
      if (group.rank() == 0)
        group.start_send(tensor, 1, {.tag = 1, .what = "x"}).wait();
      else
        group.start_receive(tensor, 0, {.tag = 1, .what = "x"}).wait();
    });
  });
  for (const std::string& error : errors) EXPECT_THAT(error, HasSubstr("400 bytes of Float were sent where 200"));
}

TEST(LocalGroup, AHandleMayBeDroppedAfterAFailure) {
  auto ranks = local_group(2, kImpatient);
  {
    at::Tensor tensor = at::empty({1000}, at::kFloat);
    auto dropped = ranks[0]->start_receive(tensor, 1, {.tag = 1, .what = "x"});
  }
  // Nothing takes this: the receive above has gone with its tensor.
  EXPECT_THAT(error_of([&] { ranks[1]->start_send(at::ones({1000}), 0, {.tag = 1, .what = "x"}).wait(); }),
              HasSubstr("waited 0.2 s to send x"));
}

TEST(LocalGroup, AReceivePostedLateStillGetsItsMessage) {
  auto ranks = local_group(2, kImpatient);
  at::Tensor sent = at::full({3}, 7.0F);
  auto send = ranks[0]->start_send(sent, 1, {.tag = 1, .what = "x"});
  at::Tensor got = at::empty({3});
  auto receive = ranks[1]->start_receive(got, 0, {.tag = 1, .what = "x"});
  send.wait();
  ranks[0].reset();
  receive.wait();
  EXPECT_TRUE(at::equal(got, sent));
}

TEST(Agreement, EqualHashesPass) {
  run_ranks(3, [](Communicator& group) { verify_agreement(group, 42, "the plan"); });
}

TEST(Agreement, NamesTheRanksThatDifferOnEveryRank) {
  std::atomic<int> named{0};
  run_ranks(4, [&](Communicator& group) {
    try {
      verify_agreement(group, group.rank() % 2 == 1 ? 0xbadU : 0x900dU, "the plan");
    } catch (const ConfigError& error) {
      EXPECT_THAT(error.what(),
                  AllOf(HasSubstr("the ranks differ in the plan: ranks 0, 2 ("), HasSubstr("against ranks 1, 3 (")));
      ++named;
    }
    group.barrier("still usable");
  });
  EXPECT_EQ(named, 4);
}

TEST(Agreement, DifferentSubjectsDiffer) {
  EXPECT_THROW(
      run_ranks(2,
                [](Communicator& group) { verify_agreement(group, 1, group.rank() == 0 ? "the plan" : "the data"); }),
      ConfigError);
}

}  // namespace
}  // namespace lockstep::comm
