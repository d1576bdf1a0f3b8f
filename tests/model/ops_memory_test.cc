// Memory of the fused operations under the counting allocator.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <torch/csrc/autograd/autograd.h>

#include "model/ops/attention.h"
#include "model/ops/linear.h"
#include "model/ops/linear_cross_entropy.h"
#include "tensor/cpu_allocator.h"

namespace lockstep::model::ops {
namespace {

int64_t page_faults() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

TEST(OpsMemoryTest, AllLogitsAreNeverHeld) {
  tensor::install_cpu_allocator();
  constexpr int64_t kRows = 4096;
  constexpr int64_t kClasses = 20000;
  const at::Tensor hidden = at::randn({kRows, 8}).requires_grad_();
  const at::Tensor weight = at::randn({kClasses, 8}).requires_grad_();
  const at::Tensor labels = at::zeros({kRows}, at::kLong);
  const int64_t before = tensor::current_bytes();
  torch::autograd::backward({linear_cross_entropy(hidden, weight, labels)});
  const int64_t all_logits = kRows * kClasses * 4;
  EXPECT_LT(tensor::peak_bytes() - before, all_logits / 4);
}

TEST(OpsMemoryTest, ARepeatedStepFaultsInNoPages) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer's own memory faults in pages";
#endif
  tensor::install_cpu_allocator();
  const at::Tensor x = at::randn({4, 128, 96});
  const at::Tensor in = at::randn({96, 288}).requires_grad_();
  const at::Tensor in_bias = at::zeros({288}).requires_grad_();
  const at::Tensor up = at::randn({96, 4096}).requires_grad_();
  const at::Tensor up_bias = at::zeros({4096}).requires_grad_();
  const auto step = [&] {
    const at::Tensor mixed = causal_self_attention(linear(x, in, in_bias, WeightLayout::in_out), 6, 0.0);
    torch::autograd::backward({linear_gelu(mixed, up, up_bias, WeightLayout::in_out).sum()});
    for (const auto& parameter : {in, in_bias, up, up_bias}) parameter.mutable_grad().reset();
  };
  for (int i = 0; i < 3; ++i) step();
  const int64_t before = page_faults();
  for (int i = 0; i < 10; ++i) step();
  EXPECT_LT(page_faults() - before, 100);  // one step touches 5,000 pages of tensors
}

TEST(OpsMemoryTest, TensorsAreAlignedAndCounted) {
  tensor::install_cpu_allocator();
  const int64_t before = tensor::current_bytes();
  std::vector<at::Tensor> tensors;
  int64_t bytes = 0;
  for (const int64_t numel : {1, 3, 16, 1000, 300001}) {
    tensors.push_back(at::empty({numel}, at::kFloat));
    bytes += numel * 4;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(tensors.back().const_data_ptr()) % 64, 0U);
  }
  EXPECT_EQ(tensor::current_bytes() - before, bytes);
  EXPECT_GE(tensor::peak_bytes(), tensor::current_bytes());
  tensors.clear();
  EXPECT_EQ(tensor::current_bytes(), before);
}

}  // namespace
}  // namespace lockstep::model::ops
