#include "launch/connect.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <vector>

#include "comm/gloo/connect.h"
#include "comm/local/local_group.h"
#include "comm/transport.h"
#include "lockstep/error.h"

namespace lockstep::launch {
namespace {

/// Where the launcher told nothing: counts the ranks that have this host's name.  Every rank takes part.
void find_local_place(World& world, bool given) {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  const uint64_t mine = comm::mix(0, std::string_view(name.data()));
  std::vector<uint64_t> all(static_cast<size_t>(world.size));
  world.communicator->all_gather_records(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)),
                                         "host names");
  if (given) return;
  world.local_rank = world.local_size = 0;
  for (int rank = 0; rank < world.size; ++rank) {
    if (all[static_cast<size_t>(rank)] != mine) continue;
    ++world.local_size;
    if (rank < world.rank) ++world.local_rank;
  }
}

}  // namespace

World connect_as(const RankEnvironment& environment, const ConnectOptions& options) {
  const auto deadline = options.deadline ? *options.deadline : environment.deadline.value_or(kDefaultDeadline);
  if (deadline.count() <= 0)
    throw ConfigError(fmt::format("connect: the deadline is {} ms; give more than 0", deadline.count()));
  World world{.rank = environment.rank,
              .size = environment.size,
              .local_rank = environment.local_rank,
              .local_size = environment.local_size};
  if (environment.size == 1) {
    world.communicator = std::move(comm::local_group(1, {.deadline = deadline}).front());
    return world;
  }
  world.communicator = comm::connect_gloo({.rank = environment.rank,
                                           .size = environment.size,
                                           .store_host = environment.master_address,
                                           .store_port = environment.master_port,
                                           .host_store = environment.rank == 0 && !environment.launcher_hosts_store,
                                           .store_prefix = environment.store_prefix,
                                           .interface = environment.interface,
                                           .deadline = deadline});
  find_local_place(world, environment.local_given);
  options.log.info(fmt::format("rank {} of {} ({} of {} on this host) joined at {}:{} ({}); deadline {}", world.rank,
                               world.size, world.local_rank, world.local_size, environment.master_address,
                               environment.master_port, environment.source, comm::seconds_text(deadline)));
  return world;
}

World connect(const ConnectOptions& options) { return connect_as(rank_environment(), options); }

}  // namespace lockstep::launch
