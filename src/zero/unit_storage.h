#pragma once

#include <ATen/core/Tensor.h>

#include <string>

namespace lockstep::zero {

/// The storage of a unit's parameters, whose memory comes and goes while the parameters, and every view that autograd
/// saves of them, stay.  Starts released.  Used by one thread.
class UnitStorage {
 public:
  /// numel: elements of `type`.  unit: for the message of an access to released memory.
  UnitStorage(int64_t numel, at::ScalarType type, std::string unit);

  /// A view of the storage: its type, `shape`, from element `offset` on.  Requires: filled.  It may be kept, viewed and
  /// sliced while the storage is released; reading or writing it throws c10::Error then, naming the unit.
  [[nodiscard]] at::Tensor view(int64_t offset, at::IntArrayRef shape) const;
  /// The storage's memory becomes `slot`'s: 1-D, contiguous, numel elements of the type; kept until release().
  /// No version is bumped: for autograd nothing changed.
  void fill(const at::Tensor& slot);
  void release();
  /// What tensors that view it can be told by.
  [[nodiscard]] const c10::StorageImpl* address() const { return storage_.unsafeGetStorageImpl(); }

 private:
  int64_t numel_;
  at::ScalarType type_;
  std::string released_message_;
  c10::Storage storage_;
};

}  // namespace lockstep::zero
