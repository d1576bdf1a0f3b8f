#include "trace_file.h"

#include <ATen/ops/empty.h>

#include <cstring>
#include <vector>

#include "base/files.h"
#include "lockstep/communicator.h"
#include "lockstep/trace.h"

namespace lockstep::cli {
namespace {

constexpr Message kMessage{.tag = 4, .what = "the time line"};

at::Tensor bytes(int64_t count) { return at::empty({count}, at::kByte); }

}  // namespace

void write_trace_file(Communicator& group, const Trace& trace, const std::string& path) {
  std::string events = trace.events();
  std::vector<int64_t> sizes(static_cast<size_t>(group.size()));
  const auto size = static_cast<int64_t>(events.size());
  group.all_gather_records(std::as_bytes(std::span(&size, 1)), std::as_writable_bytes(std::span(sizes)), kMessage.what);
  if (group.rank() != 0) {
    const at::Tensor sent = bytes(size);
    std::memcpy(sent.mutable_data_ptr(), events.data(), events.size());
    group.start_send(sent, 0, kMessage).wait();
    return;
  }
  for (int rank = 1; rank < group.size(); ++rank) {
    const at::Tensor received = bytes(sizes[static_cast<size_t>(rank)]);
    group.start_receive(received, rank, kMessage).wait();
    events.append(",\n").append(static_cast<const char*>(received.const_data_ptr()),
                                static_cast<size_t>(received.numel()));
  }
  base::host_files().write_text(path, Trace::file(events));
}

}  // namespace lockstep::cli
