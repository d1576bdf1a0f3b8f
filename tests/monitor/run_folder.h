#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace lockstep::monitor {

/// A folder that is not there yet, and what is in its files.
class RunFolderTest : public testing::Test {
 protected:
  ~RunFolderTest() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] static std::string text(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path, std::ios::binary).rdbuf();
    return text.str();
  }
  static void add(const std::string& path, std::string_view bytes) {
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path, std::ios::app | std::ios::binary) << bytes;
  }

  const std::string folder_ = testing::TempDir() + "run_folder_test_" + std::to_string(::getpid()) + "/job";
};

}  // namespace lockstep::monitor
