#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/files.h"
#include "lockstep/data.h"

namespace lockstep::data {

/// A text file as bytes.
class TextFile final : public TokenSource {
 public:
  TextFile(base::FileSystem& files, std::string path);

  [[nodiscard]] int64_t size() const override { return static_cast<int64_t>(file_->bytes().size()); }
  void read(int64_t offset, std::span<int64_t> into) const override;
  [[nodiscard]] int64_t vocabulary() const override { return 256; }
  [[nodiscard]] std::string name() const override { return path_; }

 private:
  const std::string path_;
  const std::unique_ptr<base::MappedFile> file_;
};

/// Several sources, one after the other; samples run across their borders.
class JoinedSource final : public TokenSource {
 public:
  /// Requires: at least one source, none of them empty.
  explicit JoinedSource(std::vector<std::shared_ptr<TokenSource>> sources);

  [[nodiscard]] int64_t size() const override { return ends_.back(); }
  void read(int64_t offset, std::span<int64_t> into) const override;
  [[nodiscard]] int64_t vocabulary() const override;
  [[nodiscard]] std::string name() const override;

 private:
  std::vector<std::shared_ptr<TokenSource>> sources_;
  std::vector<int64_t> ends_;  // Of each source, as an offset of the whole.
};

}  // namespace lockstep::data
