#pragma once

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"
#include "lockstep/error.h"

namespace lockstep::checkpoint {

/// Files in memory that forget, at a crash, what was not flushed: a file's bytes become durable when it is closed, a
/// folder's entries when the folder is synchronized.  Operations can be made to fail from a given one on, as if the
/// process had been killed, and the disk can be full.  Thread-safe.
class MemoryFiles final : public base::FileSystem {
 public:
  MemoryFiles() : root_(std::make_shared<Node>()) { root_->folder = true; }

  /// Every operation after this many more fails.
  void fail_after(int operations) {
    const std::lock_guard lock(mutex_);
    left_ = operations;
  }
  void fill_disk_after(int64_t bytes) {
    const std::lock_guard lock(mutex_);
    free_bytes_ = bytes;
  }
  /// What a machine finds when it starts again; no failures from here on.  A file system may write entries in any order
  /// until a folder is synchronized: with files_first those of files have come to the disk, and those of folders not.
  void crash(bool files_first) {
    const std::lock_guard lock(mutex_);
    forget(*root_, files_first);
    left_ = std::numeric_limits<int>::max();
    free_bytes_ = std::numeric_limits<int64_t>::max();
  }
  /// Changes one byte of a file.
  void damage(const std::string& path, size_t byte) {
    const std::lock_guard lock(mutex_);
    file(path)->content.at(byte) ^= 1;
  }
  void truncate(const std::string& path, size_t bytes) {
    const std::lock_guard lock(mutex_);
    file(path)->content.resize(bytes);
  }
  std::vector<std::string> list(const std::string& path) {
    const std::lock_guard lock(mutex_);
    std::vector<std::string> names;
    if (const auto node = find(path))
      for (const auto& [name, child] : node->entries) names.push_back(name);
    return names;
  }

  std::unique_ptr<base::OutputFile> create(const std::string& path) override {
    const std::lock_guard lock(mutex_);
    count(path, "create");
    const auto node = std::make_shared<Node>();
    folder_of(path)->entries[name_of(path)] = node;
    return std::make_unique<File>(*this, node, path);
  }
  std::unique_ptr<base::MappedFile> map(const std::string& path) override {
    const std::lock_guard lock(mutex_);
    return std::make_unique<Mapping>(file(path)->content);
  }
  std::string read_text(const std::string& path) override {
    const std::lock_guard lock(mutex_);
    return file(path)->content;
  }
  bool exists(const std::string& path) override {
    const std::lock_guard lock(mutex_);
    return find(path) != nullptr;
  }
  void create_directories(const std::string& path) override {
    const std::lock_guard lock(mutex_);
    count(path, "create");
    auto node = root_;
    for (const std::string& part : parts_of(path)) {
      auto& child = node->entries[part];
      if (!child) {
        child = std::make_shared<Node>();
        child->folder = true;
      }
      node = child;
    }
  }
  void rename(const std::string& from, const std::string& to) override {
    const std::lock_guard lock(mutex_);
    count(from, "rename");
    const auto node = find(from);
    if (!node) throw IoError(from + ": cannot rename: no such file");
    const auto target = find(to);
    if (target && target->folder && !target->entries.empty()) throw IoError(to + ": cannot rename: not empty");
    folder_of(from)->entries.erase(name_of(from));
    folder_of(to)->entries[name_of(to)] = node;
  }
  void remove_all(const std::string& path) override {
    const std::lock_guard lock(mutex_);
    const auto node = find(path);
    if (!node) return;
    // One operation an entry: a removal can stop half-way.
    while (!node->entries.empty()) {
      count(path, "remove");
      node->entries.erase(node->entries.begin());
    }
    count(path, "remove");
    folder_of(path)->entries.erase(name_of(path));
  }
  void sync_directory(const std::string& path) override {
    const std::lock_guard lock(mutex_);
    count(path, "flush");
    const auto node = find(path);
    if (!node) throw IoError(path + ": cannot flush: no such folder");
    node->durable_entries = node->entries;
  }

 private:
  struct Node {
    bool folder = false;
    std::map<std::string, std::shared_ptr<Node>> entries{};
    std::map<std::string, std::shared_ptr<Node>> durable_entries{};
    std::string content{};
    std::string durable_content{};
  };

  class File final : public base::OutputFile {
   public:
    File(MemoryFiles& files, std::shared_ptr<Node> node, std::string path)
        : files_(files), node_(std::move(node)), path_(std::move(path)) {}
    void write(std::span<const std::byte> bytes) override {
      const std::lock_guard lock(files_.mutex_);
      files_.count(path_, "write");
      if (static_cast<int64_t>(bytes.size()) > files_.free_bytes_)
        throw IoError(path_ + ": cannot write: No space left on device");
      files_.free_bytes_ -= static_cast<int64_t>(bytes.size());
      node_->content.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    }
    void close() override {
      const std::lock_guard lock(files_.mutex_);
      files_.count(path_, "flush");
      node_->durable_content = node_->content;
    }

   private:
    MemoryFiles& files_;
    std::shared_ptr<Node> node_;
    std::string path_;
  };

  class Mapping final : public base::MappedFile {
   public:
    explicit Mapping(std::string content) : content_(std::move(content)) {}
    [[nodiscard]] std::span<const std::byte> bytes() const override { return std::as_bytes(std::span(content_)); }

   private:
    std::string content_;
  };

  static std::vector<std::string> parts_of(const std::string& path) {
    std::vector<std::string> parts;
    for (size_t begin = 0; begin < path.size();) {
      const size_t end = std::min(path.find('/', begin), path.size());
      if (end > begin) parts.push_back(path.substr(begin, end - begin));
      begin = end + 1;
    }
    return parts;
  }
  static std::string name_of(const std::string& path) { return parts_of(path).back(); }

  static void forget(Node& node, bool files_first) {
    auto kept = node.durable_entries;
    if (files_first)
      for (const auto& [name, child] : node.entries)
        if (!child->folder) kept[name] = child;
    node.entries = std::move(kept);
    node.content = node.durable_content;
    for (auto& [name, child] : node.entries) forget(*child, files_first);
  }

  std::shared_ptr<Node> find(const std::string& path) {
    auto node = root_;
    for (const std::string& part : parts_of(path)) {
      const auto child = node->entries.find(part);
      if (child == node->entries.end()) return nullptr;
      node = child->second;
    }
    return node;
  }
  std::shared_ptr<Node> file(const std::string& path) {
    auto node = find(path);
    if (!node || node->folder) throw IoError(path + ": cannot open: No such file or directory");
    return node;
  }
  std::shared_ptr<Node> folder_of(const std::string& path) {
    auto node = find(path.substr(0, path.rfind('/')));
    if (!node || !node->folder) throw IoError(path + ": cannot create: no such folder");
    return node;
  }
  void count(const std::string& path, const char* action) {
    if (left_-- <= 0) {
      left_ = 0;
      throw IoError(path + ": cannot " + action + ": killed");
    }
  }

  std::mutex mutex_;
  std::shared_ptr<Node> root_;
  int left_ = std::numeric_limits<int>::max();
  int64_t free_bytes_ = std::numeric_limits<int64_t>::max();
};

}  // namespace lockstep::checkpoint
