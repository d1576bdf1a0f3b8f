#include "kernels/updates.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "kernels/adam.h"
#include "kernels/levels.h"
#include "kernels/reference.h"

namespace lockstep::kernels {
namespace {

// A rule under test: arrays are value, gradient and up to three states.
struct State {
  std::vector<float> value, gradient, a, b, c;
};
using Update = std::function<void(State&, int64_t first, int64_t numel)>;
struct Rule {
  Update kernel, reference;
};

template <class Step>
Rule adam_rule(const Step& step) {
  const auto with = [step](auto apply) {
    return [step, apply](State& s, int64_t first, int64_t numel) {
      apply(step,
            AdamArrays{.value = s.value.data() + first,
                       .gradient = s.gradient.data() + first,
                       .exp_avg = s.a.data() + first,
                       .exp_avg_sq = s.b.data() + first},
            numel);
    };
  };
  return {with([](auto&&... x) { adam(x...); }), with([](auto&&... x) { reference::adam(x...); })};
}

Rule sgd_rule(const SgdStep& step) {
  const auto with = [step](auto apply) {
    return [step, apply](State& s, int64_t first, int64_t numel) {
      apply(step, s.value.data() + first, s.gradient.data() + first, s.a.data() + first, numel);
    };
  };
  return {with([](auto&&... x) { sgd(x...); }), with([](auto&&... x) { reference::sgd(x...); })};
}

Rule adagrad_rule(const AdagradStep& step) {
  const auto with = [step](auto apply) {
    return [step, apply](State& s, int64_t first, int64_t numel) {
      apply(step, s.value.data() + first, s.gradient.data() + first, s.b.data() + first, numel);
    };
  };
  return {with([](auto&&... x) { adagrad(x...); }), with([](auto&&... x) { reference::adagrad(x...); })};
}

Rule rmsprop_rule(const RmspropStep& step) {
  const auto with = [step](auto apply) {
    return [step, apply](State& s, int64_t first, int64_t numel) {
      apply(step,
            RmspropArrays{.value = s.value.data() + first,
                          .gradient = s.gradient.data() + first,
                          .square_avg = s.b.data() + first,
                          .momentum_buffer = s.a.data() + first,
                          .grad_avg = s.c.data() + first},
            numel);
    };
  };
  return {with([](auto&&... x) { rmsprop(x...); }), with([](auto&&... x) { reference::rmsprop(x...); })};
}

std::vector<Rule> rules() {
  return {
      adam_rule(AdamStep{.bias_correction1 = 0.19, .bias_correction2 = 0.002}),
      adam_rule(AdamStep{.weight_decay = 0.1, .gradient_divisor = 8.5F}),
      adam_rule(AdamStep{.weight_decay = 0.1, .decoupled_decay = false, .bias_correction2 = 0.5}),
      sgd_rule({.lr = 0.1}),
      sgd_rule({.lr = 0.1, .weight_decay = 0.1, .gradient_divisor = 3.0F}),
      sgd_rule({.lr = 0.1, .momentum = 0.9, .dampening = 0.5}),
      sgd_rule({.lr = 0.1, .momentum = 0.9, .dampening = 0.5, .first = true}),
      sgd_rule({.lr = 0.1, .momentum = 0.9, .weight_decay = 0.1, .nesterov = true}),
      adagrad_rule({.weight_decay = 0.1, .gradient_divisor = 3.0F}),
      rmsprop_rule({}),
      rmsprop_rule({.weight_decay = 0.1, .momentum = 0.9, .gradient_divisor = 3.0F}),
      rmsprop_rule({.momentum = 0.9, .centered = true}),
      rmsprop_rule({.centered = true}),
  };
}

State start(int64_t numel) {
  State state{.value = random_values(numel, 1),
              .gradient = random_values(numel, 2),
              .a = random_values(numel, 3, 0.1F),
              .b = random_values(numel, 4),
              .c = random_values(numel, 5, 0.01F)};
  for (float& square : state.b) square = square * square + 0.01F;
  return state;
}

using Updates = AtEveryLevel;
INSTANTIATE_TEST_SUITE_P(Levels, Updates, testing::ValuesIn(compiled_levels()), level_name);

TEST_P(Updates, MatchTheReference) {
  size_t index = 0;
  for (const Rule& rule : rules()) {
    SCOPED_TRACE(index++);
    for (const int64_t numel : {0, 1, 7, 16, 33, 1000}) {
      State actual = start(numel);
      State expected = start(numel);
      rule.kernel(actual, 0, numel);
      rule.reference(expected, 0, numel);
      expect_near_all(actual.value, expected.value, 3e-7, 3e-7);
      expect_near_all(actual.a, expected.a, 3e-7, 3e-7);
      expect_near_all(actual.b, expected.b, 3e-7, 3e-7);
      expect_near_all(actual.c, expected.c, 3e-7, 3e-7);
    }
  }
}

TEST_P(Updates, AreEqualBitsForEveryCut) {
  constexpr int64_t kNumel = 75;
  for (const Rule& rule : rules()) {
    State whole = start(kNumel);
    rule.kernel(whole, 0, kNumel);
    for (int64_t cut = 0; cut <= kNumel; ++cut) {
      State pieces = start(kNumel);
      rule.kernel(pieces, 0, cut);
      rule.kernel(pieces, cut, kNumel - cut);
      EXPECT_TRUE(same_bits(pieces.value, whole.value)) << cut;
      EXPECT_TRUE(same_bits(pieces.a, whole.a)) << cut;
      EXPECT_TRUE(same_bits(pieces.b, whole.b)) << cut;
      EXPECT_TRUE(same_bits(pieces.c, whole.c)) << cut;
    }
  }
}

TEST_P(Updates, LeavePaddingZero) {
  for (const Rule& rule : rules()) {
    State zeros{.value = std::vector<float>(64),
                .gradient = std::vector<float>(64),
                .a = std::vector<float>(64),
                .b = std::vector<float>(64),
                .c = std::vector<float>(64)};
    rule.kernel(zeros, 0, 64);
    for (const auto* array : {&zeros.value, &zeros.a, &zeros.b, &zeros.c}) {
      for (const float value : *array) ASSERT_EQ(value, 0.0F);
    }
  }
}

}  // namespace
}  // namespace lockstep::kernels
