#include <fmt/format.h>

#include "comm/local/local_group.h"
#include "launch/connect.h"
#include "lockstep/error.h"
#include "lockstep/launch.h"

namespace lockstep::launch {

void run_threads(int size, const std::function<void(const World&)>& body) {
  if (size < 1) throw ConfigError(fmt::format("run_threads: {} ranks; give at least 1", size));
  comm::run_ranks(size,
                  [&](Communicator& group) {
                    const std::shared_ptr<Communicator> borrowed(std::shared_ptr<void>(),
                                                                 &group);  // Owned by run_ranks.
                    body({.communicator = borrowed,
                          .rank = group.rank(),
                          .size = size,
                          .local_rank = group.rank(),
                          .local_size = size});
                  },
                  {.deadline = kDefaultDeadline});
}

}  // namespace lockstep::launch
