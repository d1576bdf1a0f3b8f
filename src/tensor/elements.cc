#include "tensor/elements.h"

#include <ATen/core/Tensor.h>

#include <cstring>

#include "base/check.h"
#include "kernels/casts.h"
#include "kernels/sums.h"

namespace lockstep::tensor {
namespace {

kernels::HalfType half_type(at::ScalarType type) {
  LOCKSTEP_CHECK(type == at::kHalf || type == at::kBFloat16);
  return type == at::kHalf ? kernels::HalfType::fp16 : kernels::HalfType::bf16;
}

}  // namespace

at::ScalarType scalar_type(DataType type) {
  LOCKSTEP_CHECK(type != DataType::int8);
  return type == DataType::fp32 ? at::kFloat : type == DataType::fp16 ? at::kHalf : at::kBFloat16;
}

Elements elements_of(const at::Tensor& tensor) { return {tensor.const_data_ptr(), tensor.scalar_type()}; }

MutableElements mutable_elements_of(const at::Tensor& tensor) {
  return {tensor.mutable_data_ptr(), tensor.scalar_type()};
}

void convert(Elements from, MutableElements to, int64_t numel) {
  if (from.type == to.type) {
    if (numel > 0) std::memcpy(to.data, from.data, static_cast<size_t>(numel) * c10::elementSize(from.type));
    return;
  }
  if (to.type == at::kFloat) {
    kernels::widen(half_type(from.type), static_cast<const uint16_t*>(from.data), static_cast<float*>(to.data), numel);
    return;
  }
  for_each_widened(from, numel, [&to](const float* values, int64_t begin, int64_t count) {
    kernels::narrow(half_type(to.type), values, static_cast<uint16_t*>(to.from(begin).data), count);
  });
}

void accumulate(Elements from, float* to, int64_t numel) {
  for_each_widened(from, numel, [to](const float* values, int64_t begin, int64_t count) {
    kernels::accumulate(to + begin, values, count);
  });
}

const float* widened(Elements from, int64_t numel, std::vector<float>& scratch) {
  if (from.type == at::kFloat) return static_cast<const float*>(from.data);
  if (std::ssize(scratch) < numel) scratch.resize(static_cast<size_t>(numel));
  convert(from, {scratch.data(), at::kFloat}, numel);
  return scratch.data();
}

}  // namespace lockstep::tensor
