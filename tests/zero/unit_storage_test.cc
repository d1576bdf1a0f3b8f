#include "zero/unit_storage.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

namespace lockstep::zero {
namespace {

std::string message_of(const std::function<void()>& access) {
  try {
    access();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "nothing thrown";
}

TEST(UnitStorageTest, ViewsFollowTheMemory) {
  UnitStorage storage(128, at::kFloat, "layer 3");
  storage.fill(at::zeros({128}));
  const at::Tensor a = storage.view(0, {8, 8});
  const at::Tensor b = storage.view(64, {64});
  const auto version = a._version();
  storage.fill(at::arange(128, at::kFloat));
  EXPECT_TRUE(at::equal(a, at::arange(64, at::kFloat).view({8, 8})));
  EXPECT_TRUE(at::equal(b, at::arange(64, 128, at::kFloat)));
  storage.release();
  storage.fill(at::ones({128}));
  EXPECT_TRUE(at::equal(b, at::ones({64})));
  EXPECT_EQ(a._version(), version) << "autograd must see no change";
}

TEST(UnitStorageTest, AnAccessToReleasedMemoryNamesTheUnit) {
  UnitStorage storage(64, at::kFloat, "layer 3");
  storage.fill(at::ones({64}));
  const at::Tensor weight = storage.view(0, {8, 8});
  for (int round = 0; round < 2; ++round) {
    storage.fill(at::ones({64}));
    storage.release();
    const at::Tensor x = at::ones({2, 8});
    const std::vector<std::function<void()>> accesses{[&] { (void)at::linear(x, weight); },
                                                      [&] { (void)at::mm(x, weight); },
                                                      [&] { (void)weight.clone(); },
                                                      [&] { (void)weight.sum(); },
                                                      [&] { weight.add_(1); },
                                                      [&] { (void)weight.data_ptr<float>(); },
                                                      [&] { (void)at::embedding(weight, at::zeros({2}, at::kLong)); },
                                                      [&] {
                                                        weight.copy_(at::ones({8, 8}));
                                                      }};
    for (size_t i = 0; i < accesses.size(); ++i)
      EXPECT_THAT(message_of(accesses[i]), testing::HasSubstr("the parameters of layer 3 are released"))
          << "access " << i;
  }
  EXPECT_EQ(weight.t().size(0), 8) << "views stay legal";
}

TEST(UnitStorageTest, TheMemoryLivesAsLongAsItIsUsed) {
  UnitStorage storage(64, at::kFloat, "layer 0");
  at::Tensor slot = at::full({64}, 7.0F);
  storage.fill(slot);
  const at::Tensor weight = storage.view(0, {64});
  slot.reset();
  EXPECT_EQ(weight.sum().item<float>(), 7.0F * 64);
}

}  // namespace
}  // namespace lockstep::zero
