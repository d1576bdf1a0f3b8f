#include "data/token_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/check.h"
#include "lockstep/error.h"

namespace lockstep {
namespace data {

TextFile::TextFile(base::FileSystem& files, std::string path) : path_(std::move(path)), file_(files.map(path_)) {
  if (file_->bytes().empty())
    throw IoError(fmt::format("{}: file is empty; --data needs files of at least one byte", path_));
}

void TextFile::read(int64_t offset, std::span<int64_t> into) const {
  LOCKSTEP_CHECK(offset >= 0 && offset + static_cast<int64_t>(into.size()) <= size());
  const auto bytes = file_->bytes().subspan(static_cast<size_t>(offset), into.size());
  std::ranges::transform(bytes, into.begin(), [](std::byte byte) { return std::to_integer<int64_t>(byte); });
}

JoinedSource::JoinedSource(std::vector<std::shared_ptr<TokenSource>> sources) : sources_(std::move(sources)) {
  int64_t end = 0;
  for (const auto& source : sources_) ends_.push_back(end += source->size());
}

void JoinedSource::read(int64_t offset, std::span<int64_t> into) const {
  LOCKSTEP_CHECK(offset >= 0 && offset + static_cast<int64_t>(into.size()) <= size());
  auto index = static_cast<size_t>(std::ranges::upper_bound(ends_, offset) - ends_.begin());
  while (!into.empty()) {
    const int64_t count = std::min(ends_[index] - offset, static_cast<int64_t>(into.size()));
    const int64_t begin = ends_[index] - sources_[index]->size();
    sources_[index]->read(offset - begin, into.first(static_cast<size_t>(count)));
    into = into.subspan(static_cast<size_t>(count));
    offset += count;
    ++index;
  }
}

int64_t JoinedSource::vocabulary() const {
  int64_t largest = 0;
  for (const auto& source : sources_) largest = std::max(largest, source->vocabulary());
  return largest;
}

std::string JoinedSource::name() const {
  return sources_.size() == 1 ? sources_.front()->name()
                              : fmt::format("{} and {} more", sources_.front()->name(), sources_.size() - 1);
}

}  // namespace data

std::shared_ptr<TokenSource> open_text_files(const std::vector<std::string>& files) {
  if (files.empty()) throw ConfigError("no data: name at least one text file with --data");
  std::vector<std::shared_ptr<TokenSource>> sources;
  for (const std::string& file : files) {
    // A pipe or a device has no length to cut into samples, and opening a pipe would wait for its writer.
    std::error_code error;
    const auto type = std::filesystem::status(file, error).type();
    if (type == std::filesystem::file_type::directory)
      throw IoError(fmt::format("{}: is a directory; --data takes text files, as in --data {}/*.txt", file, file));
    if (type == std::filesystem::file_type::not_found)
      throw IoError(fmt::format("{}: no such file; --data takes text files", file));
    if (!error && type != std::filesystem::file_type::regular)
      throw IoError(fmt::format("{}: is not a regular file; --data takes text files", file));
    sources.push_back(std::make_shared<data::TextFile>(base::host_files(), file));
  }
  if (sources.size() == 1) return sources.front();
  return std::make_shared<data::JoinedSource>(std::move(sources));
}

}  // namespace lockstep
