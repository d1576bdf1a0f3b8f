#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "lockstep/config_training.h"

namespace at {
class Tensor;
}

namespace lockstep::tensor {

/// LibTorch's name for a float type of the config.  Requires: not int8.
[[nodiscard]] at::ScalarType scalar_type(DataType type);

/// A run of elements in somebody else's memory: fp32, fp16 or bf16.
struct Elements {
  const void* data = nullptr;
  at::ScalarType type = at::kFloat;

  /// The run from element `offset` on.
  [[nodiscard]] Elements from(int64_t offset) const {
    return {static_cast<const char*>(data) + offset * static_cast<int64_t>(c10::elementSize(type)), type};
  }
};

/// The same, to write to.
struct MutableElements {
  void* data = nullptr;
  at::ScalarType type = at::kFloat;

  [[nodiscard]] MutableElements from(int64_t offset) const {
    return {static_cast<char*>(data) + offset * static_cast<int64_t>(c10::elementSize(type)), type};
  }
};

/// A contiguous tensor's, from its element 0 on.
[[nodiscard]] Elements elements_of(const at::Tensor& tensor);
[[nodiscard]] MutableElements mutable_elements_of(const at::Tensor& tensor);

/// to[i] = from[i], rounded to nearest even where `to` is narrower.
void convert(Elements from, MutableElements to, int64_t numel);

/// to[i] += from[i].
void accumulate(Elements from, float* to, int64_t numel);

/// The run's values in fp32: where it lies, or widened into `scratch`, which grows to numel.
[[nodiscard]] const float* widened(Elements from, int64_t numel, std::vector<float>& scratch);

/// Calls body(values, begin, count) for one stretch after the other, values in fp32; stretches start at multiples of
/// 64 elements.
template <class Body>
void for_each_widened(Elements from, int64_t numel, const Body& body) {
  constexpr int64_t kStretch = 4096;  // Stays in the first-level cache.
  if (from.type == at::kFloat) {
    body(static_cast<const float*>(from.data), int64_t{0}, numel);
    return;
  }
  std::vector<float> scratch;
  for (int64_t begin = 0; begin < numel; begin += kStretch) {
    const int64_t count = numel - begin < kStretch ? numel - begin : kStretch;
    body(widened(from.from(begin), count, scratch), begin, count);
  }
}

/// fp32 room for a run of elements: the run itself, or scratch whose values commit() rounds into it.
class StagedElements {
 public:
  StagedElements(MutableElements to, int64_t numel) : to_(to), numel_(numel) {
    if (to.type != at::kFloat) scratch_ = std::make_unique_for_overwrite<float[]>(static_cast<size_t>(numel));
  }

  [[nodiscard]] float* data() const { return scratch_ ? scratch_.get() : static_cast<float*>(to_.data); }
  void commit() const {
    if (scratch_) convert({scratch_.get(), at::kFloat}, to_, numel_);
  }

 private:
  MutableElements to_;
  int64_t numel_;
  std::unique_ptr<float[]> scratch_;
};

}  // namespace lockstep::tensor
