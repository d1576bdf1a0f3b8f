#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

namespace lockstep::launch {

/// This process's place in the run, as its launcher's variables tell it.
struct RankEnvironment {
  int rank = 0;
  int size = 1;
  int local_rank = 0;
  int local_size = 1;
  bool local_given = false;           ///< Else the two above are guesses, for the hosts to correct.
  std::string source{};               ///< "torchrun variables", "Open MPI", ...; empty: one rank alone.
  std::string master_address{};       ///< Host of rank 0; empty at size 1.
  int master_port = 0;                ///< Where the ranks meet; 0 at size 1.
  bool launcher_hosts_store = false;  ///< torchrun's agent listens at master_port, not rank 0.
  std::string store_prefix{};         ///< Tells attempts of one torchrun job apart.
  std::string interface {};           ///< GLOO_SOCKET_IFNAME.
  std::optional<std::chrono::milliseconds> deadline{};  ///< LOCKSTEP_TIMEOUT.
};

/// The value of a variable, or null.
using VariableLookup = std::function<const char*(const char* name)>;

/// Throws ConfigError with every variable that is missing or wrong.
RankEnvironment rank_environment(const VariableLookup& lookup);

/// Of this process.
RankEnvironment rank_environment();

/// The first host of a Slurm node list: "node[07-09,12],login" is "node07".
std::string first_slurm_host(const std::string& nodes);

}  // namespace lockstep::launch
