#include "zero/unit_storage.h"

#include <ATen/ops/empty.h>
#include <c10/core/StorageImpl.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "base/check.h"

namespace lockstep::zero {
namespace {

// LibTorch can mark a storage so that every access throws, and offers no way back: its setter is for good.  An explicit
// instantiation may name a private member, which is how the mark is cleared again.
template <bool c10::StorageImpl::*Member>
struct ThrowMark {
  friend bool& throw_mark(c10::StorageImpl& storage) { return storage.*Member; }
};
bool& throw_mark(c10::StorageImpl& storage);
template struct ThrowMark<&c10::StorageImpl::throw_on_immutable_data_ptr_>;

}  // namespace

UnitStorage::UnitStorage(int64_t numel, at::ScalarType type, std::string unit)
    : numel_(numel),
      type_(type),
      released_message_("the parameters of " + unit +
                        " are released: each rank holds its slice only, and they are whole "
                        "while the unit's forward or backward runs"),
      storage_(c10::Storage::use_byte_size_t(), static_cast<size_t>(numel) * c10::elementSize(type),
               c10::DataPtr(nullptr, c10::Device(c10::kCPU)), /*allocator=*/nullptr, /*resizable=*/false) {
  release();
}

at::Tensor UnitStorage::view(int64_t offset, at::IntArrayRef shape) const {
  at::Tensor view = at::empty({0}, type_);
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t dim = shape.size(); dim-- > 1;) strides[dim - 1] = strides[dim] * std::max<int64_t>(1, shape[dim]);
  view.set_(storage_, offset, shape, strides);
  return view;
}

void UnitStorage::fill(const at::Tensor& slot) {
  LOCKSTEP_CHECK_EQ(slot.numel(), numel_);
  LOCKSTEP_CHECK(slot.scalar_type() == type_);
  c10::StorageImpl& storage = *storage_.unsafeGetStorageImpl();
  throw_mark(storage) = false;
  // The slot lives as long as the storage points at it.
  auto kept = std::make_unique<at::Tensor>(slot);
  void* const data = slot.mutable_data_ptr();
  storage.set_data_ptr_noswap(c10::DataPtr(
      data, kept.release(), [](void* tensor) { delete static_cast<at::Tensor*>(tensor); }, c10::Device(c10::kCPU)));
}

void UnitStorage::release() {
  c10::StorageImpl& storage = *storage_.unsafeGetStorageImpl();
  storage.get_extra_meta().custom_data_ptr_error_msg_ = released_message_;
  throw_mark(storage) = true;  // First: the next call looks at it.
  storage.set_data_ptr_noswap(c10::DataPtr(nullptr, c10::Device(c10::kCPU)));
}

}  // namespace lockstep::zero
