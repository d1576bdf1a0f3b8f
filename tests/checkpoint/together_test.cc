#include "checkpoint/together.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "comm/local/local_group.h"
#include "lockstep/error.h"

namespace lockstep::checkpoint {
namespace {

template <class Error>
void throws_on_all(int culprit) {
  comm::run_ranks(3, [&](Communicator& group) {
    EXPECT_THAT(
        [&] {
          run_together(group, [&] {
            if (group.rank() >= culprit) throw Error("it broke");
          });
        },
        testing::ThrowsMessage<Error>("rank " + std::to_string(culprit) + ": it broke"));
    run_together(group, [] {});
  });
}

TEST(TogetherTest, AnErrorReachesAllRanksWithItsType) {
  throws_on_all<IoError>(1);
  throws_on_all<CheckpointError>(0);
  throws_on_all<ConfigError>(2);
}

TEST(TogetherTest, OneRankAloneThrowsItsOwnText) {
  comm::run_ranks(1, [](Communicator& group) {
    EXPECT_THAT([&] { run_together(group, [] { throw IoError("it broke"); }); },
                testing::ThrowsMessage<IoError>("it broke"));
  });
}

TEST(TogetherTest, OtherErrorsBecomeCheckpointErrorsAndLongTextsAreCut) {
  comm::run_ranks(2, [](Communicator& group) {
    const std::string text(5000, 'x');
    EXPECT_THAT([&] { run_together(group, [&] { throw std::runtime_error(text); }); },
                testing::ThrowsMessage<CheckpointError>("rank 0: " + text.substr(0, 1019)));
  });
}

}  // namespace
}  // namespace lockstep::checkpoint
