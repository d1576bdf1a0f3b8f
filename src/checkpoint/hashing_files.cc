#include "checkpoint/hashing_files.h"

#include <xxhash.h>

#include <new>
#include <utility>

namespace lockstep::checkpoint {
namespace {

struct FreeHash {
  void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
};

}  // namespace

class HashingFiles::File final : public base::OutputFile {
 public:
  File(HashingFiles& owner, std::unique_ptr<base::OutputFile> file)
      : owner_(owner), file_(std::move(file)), hash_(XXH3_createState()) {
    if (!hash_) throw std::bad_alloc();
    XXH3_64bits_reset(hash_.get());
  }

  void write(std::span<const std::byte> bytes) override {
    XXH3_64bits_update(hash_.get(), bytes.data(), bytes.size());
    bytes_ += static_cast<int64_t>(bytes.size());
    file_->write(bytes);
  }

  void close() override {
    file_->close();
    owner_.last_bytes_ = bytes_;
    owner_.last_xxh3_ = XXH3_64bits_digest(hash_.get());
  }

 private:
  HashingFiles& owner_;
  std::unique_ptr<base::OutputFile> file_;
  std::unique_ptr<XXH3_state_t, FreeHash> hash_;
  int64_t bytes_ = 0;
};

uint64_t xxh3(std::span<const std::byte> bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

std::unique_ptr<base::OutputFile> HashingFiles::create(const std::string& path) {
  return std::make_unique<File>(*this, files_.create(path));
}

}  // namespace lockstep::checkpoint
