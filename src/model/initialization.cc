#include "model/initialization.h"

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>

#include "base/check.h"
#include "tensor/seeds.h"

namespace lockstep::model {
namespace {

constexpr int64_t kGrain = 16384;  // Elements; about a third of a millisecond.

void fill_normal(const at::Tensor& values, const ParameterSpec& spec, uint64_t seed, int64_t first) {
  auto* data = values.mutable_data_ptr<float>();
  at::parallel_for(0, values.numel(), kGrain, [&](int64_t begin, int64_t end) {
    tensor::fill_normal({data + begin, static_cast<size_t>(end - begin)}, spec.initialization.deviation, seed,
                        spec.name, first + begin);
  });
}

}  // namespace

void fill_initial(const at::Tensor& values, const ParameterSpec& spec, uint64_t seed) {
  fill_initial_slice(values.view({-1}), spec, seed, 0);
}

void fill_initial_slice(const at::Tensor& values, const ParameterSpec& spec, uint64_t seed, int64_t first) {
  LOCKSTEP_CHECK(values.is_contiguous() && values.scalar_type() == at::kFloat);
  switch (spec.initialization.kind) {
    case Initialization::Kind::normal:
      fill_normal(values, spec, seed, first);
      break;
    case Initialization::Kind::zeros:
      values.zero_();
      break;
    case Initialization::Kind::ones:
      values.fill_(1.0);
      break;
    case Initialization::Kind::given:
      values.copy_(spec.given.detach().reshape({-1}).narrow(0, first, values.numel()));
      break;
  }
}

}  // namespace lockstep::model
