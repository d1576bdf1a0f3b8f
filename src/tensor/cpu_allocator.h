#pragma once

#include <cstdint>

namespace lockstep::tensor {

/// Makes LibTorch's CPU tensors come from an allocator that counts bytes and keeps freed memory, so that a training
/// step does not fault its pages in again: measured, a tenth to a fifth of a step.  For the whole process and for good;
/// programs call it, the library does not.  Call it before the first tensor is made; a second call does nothing.
void install_cpu_allocator();

/// Bytes that tensors hold now, and the most they ever held.  0 before install_cpu_allocator().  Thread-safe.
int64_t current_bytes();
int64_t peak_bytes();
/// From now on peak_bytes() is the most since this call.
void reset_peak_bytes();

}  // namespace lockstep::tensor
