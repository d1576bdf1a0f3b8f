#pragma once

#include <string>

namespace lockstep {
class Communicator;
class Trace;
}  // namespace lockstep

namespace lockstep::cli {

/// Every rank's spans in one file in Chrome's trace format, written by rank 0.  Collective.  Throws IoError, CommError.
void write_trace_file(Communicator& group, const Trace& trace, const std::string& path);

}  // namespace lockstep::cli
