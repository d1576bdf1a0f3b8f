#include "tensor/cpu_allocator.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>

namespace lockstep::tensor {
namespace {

constexpr size_t kAlignment = 64;

// Process-wide, as the allocator that they describe.
std::atomic<int64_t> held_bytes{0};
std::atomic<int64_t> most_bytes{0};

void count(int64_t bytes) {
  const int64_t now = held_bytes.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  int64_t most = most_bytes.load(std::memory_order_relaxed);
  while (now > most && !most_bytes.compare_exchange_weak(most, now, std::memory_order_relaxed)) {
  }
}

/// Stands right before the bytes handed out.
struct Header {
  void* block = nullptr;
  int64_t bytes = 0;
};

// Aligned by hand: glibc's aligned allocation asks for more than it keeps, so a freed block does not fit the next
// request of the same size and the heap grows.
void* take(size_t bytes) {
  constexpr size_t kExtra = sizeof(Header) + kAlignment;
  if (bytes > SIZE_MAX - kExtra) throw std::bad_alloc();
  auto* block = static_cast<std::byte*>(std::malloc(bytes + kExtra));
  if (block == nullptr) throw std::bad_alloc();
  const auto end = reinterpret_cast<uintptr_t>(block) + kExtra;
  auto* address = block + (kExtra - end % kAlignment);
  new (address - sizeof(Header)) Header{block, static_cast<int64_t>(bytes)};
  count(static_cast<int64_t>(bytes));
  return address;
}

void give_back(void* address) {
  if (address == nullptr) return;
  Header header;
  std::memcpy(&header, static_cast<std::byte*>(address) - sizeof(Header), sizeof(Header));
  count(-header.bytes);
  std::free(header.block);
}

class CountingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    void* address = bytes > 0 ? take(bytes) : nullptr;
    return {address, address, &give_back, c10::Device(c10::DeviceType::CPU)};
  }
  [[nodiscard]] c10::DeleterFnPtr raw_deleter() const override { return &give_back; }
  void copy_data(void* to, const void* from, size_t bytes) const override { std::memcpy(to, from, bytes); }
};

}  // namespace

void install_cpu_allocator() {
  // Never destroyed: tensors in static storage may outlive any static object.
  static const bool installed = [] {
    // Large blocks come from the one heap, not from mmap, and the heap never shrinks: freed pages stay mapped.
    ::mallopt(M_MMAP_MAX, 0);
    ::mallopt(M_TRIM_THRESHOLD, -1);
    ::mallopt(M_ARENA_MAX, 1);
    c10::SetCPUAllocator(new CountingAllocator, /*priority=*/100);
    return true;
  }();
  (void)installed;
}

int64_t current_bytes() { return held_bytes.load(std::memory_order_relaxed); }
int64_t peak_bytes() { return most_bytes.load(std::memory_order_relaxed); }
void reset_peak_bytes() { most_bytes.store(current_bytes(), std::memory_order_relaxed); }

}  // namespace lockstep::tensor
