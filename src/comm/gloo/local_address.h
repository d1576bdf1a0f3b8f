#pragma once

#include <string>

namespace lockstep::comm {

/// This host's address in text that others reach it at, as seen on the way to `host`: the source address of that route.
/// Where it is a loopback address although `host` is not written as one (a host's own name often resolves so), the
/// first other address.  Empty if `host` cannot be resolved or reached.
std::string local_address_towards(const std::string& host, int port);

}  // namespace lockstep::comm
