#include "bench_channels.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "bench_timing.h"
#include "lockstep/error.h"

namespace lockstep::cli {
namespace {

constexpr size_t kPage = 4096;

struct FreeMemory {
  void operator()(std::byte* memory) const { std::free(memory); }
};
using PageAligned = std::unique_ptr<std::byte, FreeMemory>;

PageAligned make_block(int64_t bytes) {
  PageAligned block(static_cast<std::byte*>(std::aligned_alloc(kPage, static_cast<size_t>(bytes))));
  if (!block) throw std::bad_alloc();
  std::memset(block.get(), 0x5a, static_cast<size_t>(bytes));  // Zeros may never reach a virtual disk.
  return block;
}

[[noreturn]] void fail(const std::string& what) { throw IoError(fmt::format("{}: {}", what, std::strerror(errno))); }

int open_nameless(const std::string& folder) {
  const int file = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_DIRECT | O_CLOEXEC, 0600);
  if (file >= 0) return file;
  if (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL) fail(folder);
  std::string path = folder + "/lockstep-bench-XXXXXX";
  const int named = ::mkostemp(path.data(), O_DIRECT | O_CLOEXEC);
  if (named < 0) fail(folder + ": a file for direct I/O");
  ::unlink(path.c_str());
  return named;
}

struct Socket {
  int descriptor = -1;
  explicit Socket(int given) : descriptor(given) {
    if (descriptor < 0) fail("loopback TCP");
  }
  ~Socket() { ::close(descriptor); }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
};

}  // namespace

DiskProbe::DiskProbe(const std::string& folder, int64_t file_bytes)
    : folder_(folder), file_bytes_(file_bytes), file_(open_nameless(folder)) {
  try {
    (void)write({.block_bytes = 16 << 20});
  } catch (...) {
    ::close(file_);
    throw;
  }
}

DiskProbe::~DiskProbe() { ::close(file_); }

double DiskProbe::read(const DiskPass& pass) { return run(pass, false); }
double DiskProbe::write(const DiskPass& pass) { return run(pass, true); }

double DiskProbe::run(const DiskPass& pass, bool writing) {
  std::vector<PageAligned> blocks;
  for (int i = 0; i < pass.depth; ++i) blocks.push_back(make_block(pass.block_bytes));
  std::atomic<int> unfinished{0};
  const double seconds = best_seconds({.threads = pass.depth, .repeats = pass.repeats}, [&](int thread) {
    std::byte* block = blocks[static_cast<size_t>(thread)].get();
    const auto bytes = static_cast<size_t>(pass.block_bytes);
    ++unfinished;
    for (int64_t at = thread * pass.block_bytes; at < file_bytes_; at += pass.depth * pass.block_bytes) {
      const ssize_t moved = writing ? ::pwrite(file_, block, bytes, at) : ::pread(file_, block, bytes, at);
      if (moved == pass.block_bytes) continue;
      if (moved >= 0) errno = ENOSPC;  // Not an error of its own: a full disk takes a part.
      fail(fmt::format("{}: {} {} bytes at {}", folder_, writing ? "writing" : "reading", bytes, at));
    }
    if (writing && --unfinished == 0 && ::fdatasync(file_) != 0) fail(folder_ + ": flushing");
  });
  return static_cast<double>(file_bytes_) / seconds;
}

double flag_round_trip_seconds(int batches) {
  constexpr int64_t kRoundTrips = 1000;
  struct alignas(128) Flag {
    std::atomic<int64_t> value{0};
  };
  Flag ping;
  Flag pong;
  // With fewer free cores than threads a pure spin would last a time slice.
  const auto wait_for = [](const Flag& flag, int64_t value) {
    for (int spins = 0; flag.value.load(std::memory_order_acquire) < value; ++spins)
      if (spins > 10'000) std::this_thread::yield();
  };
  std::vector<int64_t> done(2, 0);
  const double seconds = best_seconds({.threads = 2, .repeats = batches}, [&](int thread) {
    int64_t& count = done[static_cast<size_t>(thread)];
    for (const int64_t end = count + kRoundTrips; count < end;) {
      ++count;
      if (thread == 0) {
        ping.value.store(count, std::memory_order_release);
        wait_for(pong, count);
      } else {
        wait_for(ping, count);
        pong.value.store(count, std::memory_order_release);
      }
    }
  });
  return seconds / kRoundTrips;
}

double loopback_bytes_per_second(int64_t bytes, int repeats) {
  const Socket listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (::bind(listener.descriptor, generic, length) != 0 || ::listen(listener.descriptor, 1) != 0 ||
      ::getsockname(listener.descriptor, generic, &length) != 0)
    fail("loopback TCP");
  const Socket sender(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (::connect(sender.descriptor, generic, length) != 0) fail("loopback TCP");
  const Socket receiver(::accept4(listener.descriptor, nullptr, nullptr, SOCK_CLOEXEC));

  constexpr int64_t kBlock = 1 << 20;
  std::vector<PageAligned> blocks;
  for (int i = 0; i < 2; ++i) blocks.push_back(make_block(kBlock));
  const double seconds = best_seconds({.threads = 2, .repeats = repeats}, [&](int thread) {
    std::byte* block = blocks[static_cast<size_t>(thread)].get();
    for (int64_t left = bytes; left > 0;) {
      const auto wanted = static_cast<size_t>(std::min(left, kBlock));
      const ssize_t moved = thread == 0 ? ::send(sender.descriptor, block, wanted, MSG_NOSIGNAL)
                                        : ::recv(receiver.descriptor, block, wanted, 0);
      if (moved > 0) {
        left -= moved;
        continue;
      }
      if (moved < 0 && errno == EINTR) continue;
      // The other side must not wait for what will never come.
      ::shutdown(sender.descriptor, SHUT_RDWR);
      fail("loopback TCP");
    }
  });
  return static_cast<double>(bytes) / seconds;
}

}  // namespace lockstep::cli
