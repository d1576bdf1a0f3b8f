#pragma once

#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <memory>

#include "lockstep/communicator.h"

namespace c10d {
class Backend;
}

namespace lockstep::comm {

/// A communicator over an existing c10d group (its CPU backend), which nobody else may use until it is gone: transfers
/// are the group's sends and receives, and a failure makes the group unusable.  Ignores SIGPIPE, as connect_gloo().
std::unique_ptr<Communicator> wrap_group(c10::intrusive_ptr<c10d::Backend> group, std::chrono::milliseconds deadline);

}  // namespace lockstep::comm
