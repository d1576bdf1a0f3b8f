#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "lockstep/communicator.h"

namespace lockstep::comm {

struct GlooOptions {
  int rank = 0;
  int size = 1;
  std::string store_host = "127.0.0.1";  ///< Where the store that the ranks meet at listens.
  int store_port = 0;
  bool host_store = false;         ///< This rank runs the store; others connect to it.
  std::optional<int> listen_fd{};  ///< A listening socket on store_port for the hosted store, which takes it over.
  std::string store_prefix{};      ///< Of the keys, where several groups meet at one store.
  std::string interface {};        ///< Network interface of the transfers; empty: the one that reaches the store.
  std::chrono::milliseconds deadline{1'800'000};  ///< Of every wait, the connecting included.
};

/// Connects this process to the other ranks over TCP: c10d's Gloo group, found through its TCP store.  Returns when all
/// ranks have connected.  Ignores SIGPIPE from then on, unless the program handles it.
/// Throws CommError within the deadline: a busy port, an unreachable or silent store, the ranks that are missing, a
/// rank that came twice, a world size that differs.
std::unique_ptr<Communicator> connect_gloo(const GlooOptions& options);

}  // namespace lockstep::comm
