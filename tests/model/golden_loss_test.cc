// Against what DeepSpeed and Hugging Face's own models computed for the first step: tests/data/golden/README.md.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>

#include <cmath>

#include "model/built_model.h"

namespace lockstep::model {
namespace {

struct Golden {
  const char* model;
  double loss;
  double grad_norm;
};

class GoldenLossTest : public testing::TestWithParam<Golden> {
 protected:
  GoldenLossTest() {
    const std::string folder = test_data(GetParam().model);
    const Weights weights = load_weights(folder);
    model_ = build_model(models::from_preset_or_folder(folder), &weights);
  }

  BuiltModel model_;
  Samples samples_ = corpus_samples(8);
};

TEST_P(GoldenLossTest, FirstLossAndGradientNormMatch) {
  const at::Tensor loss = model_.loss(samples_.input, samples_.target);
  EXPECT_NEAR(loss.item<double>(), GetParam().loss, 2e-5 * GetParam().loss);
  EXPECT_EQ(loss.dim(), 0);
  EXPECT_EQ(loss.scalar_type(), at::kFloat);
  loss.backward();
  double squares = 0;
  for (const auto& [name, parameter] : model_.parameters) {
    ASSERT_TRUE(parameter.grad().defined()) << name;
    squares += parameter.grad().to(at::kDouble).square().sum().item<double>();
  }
  EXPECT_NEAR(std::sqrt(squares), GetParam().grad_norm, 1e-3 * GetParam().grad_norm);
}

TEST_P(GoldenLossTest, LossIsTheLogitsCrossEntropy) {
  const at::NoGradGuard no_grad;
  const at::Tensor hidden = model_.hidden(samples_.input);
  const at::Tensor logits = model_.stack.head->logits(hidden);
  ASSERT_EQ(logits.sizes(), (std::vector<int64_t>{8, 64, 256}));
  const at::Tensor expected = at::cross_entropy_loss(logits.view({-1, 256}), samples_.target.reshape({-1}));
  EXPECT_NEAR(model_.stack.head->loss(hidden, samples_.target).item<double>(), expected.item<double>(), 1e-5);
}

TEST_P(GoldenLossTest, NoPositionSeesALaterOne) {
  const at::NoGradGuard no_grad;
  at::Tensor changed = samples_.input.clone();
  changed.narrow(1, 40, 24).fill_(7);
  const at::Tensor before = model_.hidden(samples_.input);
  const at::Tensor after = model_.hidden(changed);
  EXPECT_TRUE(before.narrow(1, 0, 40).allclose(after.narrow(1, 0, 40), 1e-5, 1e-6));
  EXPECT_FALSE(before.narrow(1, 40, 24).allclose(after.narrow(1, 40, 24), 1e-3, 1e-3));
}

TEST_P(GoldenLossTest, ShorterSequencesGiveThePrefix) {
  const at::NoGradGuard no_grad;
  const at::Tensor whole = model_.hidden(samples_.input);
  const at::Tensor part = model_.hidden(samples_.input.narrow(1, 0, 17).contiguous());
  EXPECT_TRUE(part.allclose(whole.narrow(1, 0, 17), 1e-5, 1e-6));
}

TEST_P(GoldenLossTest, NamesAreTheFilesNames) {
  const Weights weights = load_weights(test_data(GetParam().model));
  EXPECT_NO_THROW(weights.check(model_.stack));
  std::vector<std::string> names;
  for (const auto& [name, parameter] : model_.parameters) names.push_back(name);
  std::vector<std::string> file_names;
  const tensor::SafetensorsFile file(base::host_files(),
                                     test_data(std::string(GetParam().model) + "/model.safetensors"));
  for (const auto& [name, entry] : file.entries()) file_names.push_back(name);
  EXPECT_EQ(names, file_names);
}

INSTANTIATE_TEST_SUITE_P(Models, GoldenLossTest,
                         testing::Values(Golden{"gpt2-tiny", 5.5227696895599365, 4.002748489379883},
                                         Golden{"llama-tiny", 5.53081488609314, 2.1552326828940163}),
                         [](const auto& param_info) {
                           const std::string name = param_info.param.model;
                           return name.substr(0, name.find('-'));
                         });

}  // namespace
}  // namespace lockstep::model
