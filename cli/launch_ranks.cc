#include "launch_ranks.h"

#include <array>
#include <cstdio>
#include <filesystem>

#include "launch/supervisor.h"
#include "lockstep/log.h"

namespace lockstep::cli {

int launch_ranks(int ranks, const std::vector<std::string>& arguments) {
  launch::ChildSpec child{.argv = {std::filesystem::read_symlink("/proc/self/exe").string()}};
  child.argv.insert(child.argv.end(), arguments.begin(), arguments.end());
  launch::SupervisorOptions options{.ranks = std::vector<launch::ChildSpec>(static_cast<size_t>(ranks), child)};
  options.log = Log(
      [](LogLevel, std::string_view text) {
        std::fprintf(stderr, "lockstep: %.*s\n", static_cast<int>(text.size()), text.data());
      },
      LogLevel::warning);
  return launch::supervise(options).exit_code;
}

}  // namespace lockstep::cli
