// The roof probe: every benchmark's fraction is of a rate found here, on the same host and day.
#include "bench_roof.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "base/units.h"
#include "bench_channels.h"
#include "bench_loops.h"
#include "bench_timing.h"
#include "kernels/simd.h"
#include "lockstep/error.h"

namespace lockstep::cli {
namespace {

constexpr int64_t kHugePage = 2 << 20;
constexpr double kGiga = 1e9;

enum class Pages { small, huge };

/// Memory of the operating system's own, on pages of the size asked for if it has them.
class PagedArray {
 public:
  PagedArray(int64_t bytes, Pages pages) : mapped_bytes_(static_cast<size_t>(bytes + kHugePage)) {
    mapping_ = ::mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapping_ == MAP_FAILED) throw IoError(fmt::format("no memory for an array of {} bytes", bytes));
    const auto start = base::round_up(reinterpret_cast<intptr_t>(mapping_), kHugePage);
    data_ = reinterpret_cast<float*>(start);
    (void)::madvise(data_, static_cast<size_t>(bytes), pages == Pages::huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
  }
  ~PagedArray() { ::munmap(mapping_, mapped_bytes_); }
  PagedArray(const PagedArray&) = delete;
  PagedArray& operator=(const PagedArray&) = delete;

  [[nodiscard]] float* data() const { return data_; }

 private:
  size_t mapped_bytes_;
  void* mapping_ = nullptr;
  float* data_ = nullptr;
};

/// Bytes of this process on huge pages; 0 where the host does not tell.
int64_t huge_page_bytes() {
  std::ifstream file("/proc/self/smaps_rollup");
  std::string word;
  int64_t kilobytes = 0;
  while (file >> word)
    if (word == "AnonHugePages:" && file >> kilobytes) return kilobytes * 1024;
  return 0;
}

class Roof {
 public:
  explicit Roof(const RoofOptions& options) : options_(options) {}

  std::vector<BenchRow> measure() {
    for (const int threads : options_.threads) {
      memory(threads, Pages::small);
      memory(threads, Pages::huge);
      arithmetic(threads);
      products(threads);
    }
    disk();
    channels();
    add_fractions();
    return std::move(rows_);
  }

 private:
  /// What a row's fraction is of: the largest rate of the class, or of one of the others.
  struct Class {
    std::string name{};
    std::vector<std::string> also{};
  };

  void add(BenchRow facts, const char* unit, double value, Class of) {
    facts[unit] = rounded(value);
    rows_.push_back(std::move(facts));
    largest_[of.name] = std::max(largest_[of.name], value);
    entries_.push_back({unit, std::move(of), value});
  }

  void memory(int threads, Pages pages) {
    // The 1,024 elements that a loop takes at a time fit into any number of threads' shares of whole pages.
    const int64_t share = (options_.quick ? 128 << 20 : 256 << 20) / threads / kHugePage * kHugePage;
    const int64_t bytes = share * threads;
    const auto numel = static_cast<size_t>(share) / sizeof(float);
    const int64_t huge_before = huge_page_bytes();
    const PagedArray from(bytes, pages);
    const PagedArray to(bytes, pages);
    // The thread that will use a page touches it first, which decides where it lies.
    (void)best_seconds({.threads = threads}, [&](int t) {
      std::fill_n(from.data() + static_cast<size_t>(t) * numel, numel, 1.0F);
      std::fill_n(to.data() + static_cast<size_t>(t) * numel, numel, 1.0F);
    });
    const bool given = huge_page_bytes() - huge_before > bytes;
    const char* pages_name = pages == Pages::small ? "4KiB" : (given ? "huge" : "huge-refused");
    const auto probe = [&](const char* name, double touched_per_byte, const auto& pass) {
      const double seconds = best_seconds({.threads = threads, .repeats = options_.quick ? 4 : 9}, [&](int t) {
        const size_t offset = static_cast<size_t>(t) * numel;
        pass(to.data() + offset, from.data() + offset);
      });
      add({{"name", name}, {"threads", threads}, {"pages", pages_name}, {"bytes", bytes}}, "GBs",
          touched_per_byte * static_cast<double>(bytes) / seconds / kGiga, {fmt::format("memory/{}", threads)});
    };
    probe("roof_read", 1, [&](float*, const float* a) { read_checks_ += read_pass(a, numel); });
    probe("roof_copy", 2, [&](float* b, const float* a) { copy_pass(b, a, numel); });
    probe("roof_copy_streaming", 2, [&](float* b, const float* a) { streaming_copy_pass(b, a, numel); });
    probe("roof_update", 2, [&](float* b, const float*) { update_pass(b, 1.0F, numel); });
    probe("roof_four_streams", 1.75, [&](float* b, const float*) { four_streams_pass(b, 0.5F, numel); });
  }

  void arithmetic(int threads) {
    constexpr int64_t kIterations = 200'000;  // Half a millisecond: on a busy host some pass goes undisturbed.
    const int repeats = options_.quick ? 50 : 200;
    double hertz = 0;
    (void)best_seconds({.threads = threads, .repeats = repeats}, [&](int thread) {
      const double measured = clock_hz();  // On all threads, for the clock of that many busy cores.
      if (thread == 0) hertz = std::max(hertz, measured);
    });
    const double seconds = best_seconds({.threads = threads, .repeats = repeats},
                                        [&](int) { multiply_add_checks_ += multiply_add_pass(kIterations); });
    const double flops = static_cast<double>(threads * kIterations * multiply_add_flops()) / seconds;
    add({{"name", "roof_clock"}, {"threads", threads}}, "GHz", hertz / kGiga, {});
    add({{"name", "roof_fma_fp32"}, {"threads", threads}, {"flop_per_cycle", rounded(flops / threads / hertz)}},
        "GFLOPs", flops / kGiga, {fmt::format("fp32/{}", threads)});
  }

  void products(int threads) {
    const int before = at::get_num_threads();
    at::set_num_threads(threads);
    const auto probe = [&](ProductType type, const char* name, int64_t n, int repeats, Class of) {
      add({{"name", name}, {"threads", threads}, {"n", n}}, "GFLOPs", matrix_product_rate(type, n, repeats) / kGiga,
          std::move(of));
    };
    const std::string fp32 = fmt::format("fp32/{}", threads);
    probe(ProductType::fp32, "roof_gemm_fp32", options_.quick ? 1024 : 2048, 10, {fp32});
    // Where there are no bf16 units a product is best done in fp32, so fp32's rates bound it too.
    probe(ProductType::bf16, "roof_gemm_bf16", options_.quick ? 512 : 1024, 2,
          {fmt::format("bf16/{}", threads), {fp32}});
    at::set_num_threads(before);
  }

  void disk() {
    const int64_t file_bytes = options_.quick ? 128 << 20 : 1 << 30;
    const std::vector<int> depths = options_.quick ? std::vector<int>{1, 8} : std::vector<int>{1, 8, 32};
    DiskProbe probe(options_.folder, file_bytes);
    for (const int64_t block_bytes : {int64_t{1} << 20, int64_t{16} << 20})
      for (const int depth : depths) {
        if (depth * block_bytes > file_bytes) continue;
        const DiskPass pass{.block_bytes = block_bytes, .depth = depth, .repeats = options_.quick ? 1 : 3};
        const auto facts = [&](const char* name) {
          return BenchRow{{"name", name}, {"depth", depth}, {"block", block_bytes}, {"bytes", file_bytes}};
        };
        add(facts("roof_disk_write"), "GBs", probe.write(pass) / kGiga, {"disk write"});
        add(facts("roof_disk_read"), "GBs", probe.read(pass) / kGiga, {"disk read"});
      }
  }

  void channels() {
    const bool two_cores = allowed_cpus().size() >= 2;
    add({{"name", "roof_flag"}, {"pinned", two_cores}}, "round_trip_us",
        flag_round_trip_seconds(options_.quick ? 100 : 500) * 1e6, {});
    const int64_t bytes = options_.quick ? 256 << 20 : 1 << 30;
    add({{"name", "roof_loopback"}, {"bytes", bytes}}, "GBs",
        loopback_bytes_per_second(bytes, options_.quick ? 2 : 5) / kGiga, {"loopback"});
  }

  void add_fractions() {
    for (size_t i = 0; i < rows_.size(); ++i) {
      const Entry& entry = entries_[i];
      if (!entry.of.name.empty()) {
        double roof = largest_[entry.of.name];
        for (const std::string& other : entry.of.also) roof = std::max(roof, largest_[other]);
        rows_[i]["frac"] = rounded(entry.value / roof);
        rows_[i][fmt::format("roof_{}", entry.unit)] = rounded(roof);
      }
      rows_[i]["isa"] = kernels::simd_level();
    }
  }

  struct Entry {
    const char* unit = "";
    Class of{};
    double value = 0;
  };

  const RoofOptions& options_;
  std::vector<BenchRow> rows_;
  std::vector<Entry> entries_;  // One for each row.
  std::map<std::string, double> largest_;
  // Results nobody reads, kept where the compiler cannot prove it.
  std::atomic<float> read_checks_{0};
  std::atomic<float> multiply_add_checks_{0};
};

}  // namespace

std::vector<BenchRow> measure_roof(const RoofOptions& options) { return Roof(options).measure(); }

double matrix_product_rate(ProductType type, int64_t n, int repeats) {
  using Clock = std::chrono::steady_clock;
  const auto dtype = type == ProductType::fp32 ? at::kFloat : at::kBFloat16;
  const at::Tensor a = at::full({n, n}, 0.5, dtype);
  const at::Tensor b = at::full({n, n}, 0.25, dtype);
  at::Tensor c = at::empty({n, n}, dtype);
  double best = 0;
  for (int i = 0; i <= repeats; ++i) {
    const auto start = Clock::now();
    at::mm_out(c, a, b);
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    const auto size = static_cast<double>(n);
    if (i > 0) best = std::max(best, 2 * size * size * size / seconds);
  }
  return best;
}

}  // namespace lockstep::cli
