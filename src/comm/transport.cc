#include "comm/transport.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/error.h"

namespace lockstep::comm {
namespace {

std::string subject(const Transfer& transfer) {
  const bool send = transfer.direction == Transfer::Direction::send;
  return fmt::format("{} {} {} rank {}", send ? "send" : "receive", transfer.what, send ? "to" : "from", transfer.peer);
}

std::string particulars(const Transfer& transfer, int64_t bytes) {
  return transfer.collective ? fmt::format("{} bytes", bytes) : fmt::format("{} bytes, tag {}", bytes, transfer.tag);
}

}  // namespace

std::string Failure::record(const std::string& message) {
  const base::MutexLock lock(mutex_);
  if (!failed_.load(std::memory_order_relaxed)) {
    message_ = message;
    failed_.store(true, std::memory_order_release);
  }
  return message_;
}

void Failure::throw_if_any() const {
  if (!any()) return;
  const base::MutexLock lock(mutex_);
  throw CommError(message_);
}

std::string Transport::deadline_message(const Transfer& transfer, int64_t bytes) const {
  return fmt::format(
      "rank {}: waited {} to {} ({}): rank {} is stalled, has ended or does something else{}; look at its output, or "
      "raise the deadline (--timeout, lockstep.timeout or LOCKSTEP_TIMEOUT, in seconds)",
      rank(), seconds_text(deadline()), subject(transfer), particulars(transfer, bytes), transfer.peer,
      transfer.collective ? ", and every rank must make this call" : "");
}

std::string Transport::lost_message(const Transfer& transfer, int64_t bytes, std::string_view reason) const {
  return fmt::format(
      "rank {}: could not {} ({}): rank {} closed the connection, so it ended or failed first and its own message "
      "tells why [{}]",
      rank(), subject(transfer), particulars(transfer, bytes), transfer.peer, reason);
}

uint64_t mix(uint64_t hash, uint64_t value) {
  uint64_t mixed = (hash ^ value) + 0x9e3779b97f4a7c15U;
  mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9U;
  mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebU;
  return mixed ^ (mixed >> 31);
}

uint64_t mix(uint64_t hash, std::string_view text) {
  for (const char letter : text) hash = mix(hash, static_cast<unsigned char>(letter));
  return mix(hash, text.size());
}

std::string seconds_text(std::chrono::milliseconds duration) {
  return fmt::format("{:g} s", static_cast<double>(duration.count()) / 1000.0);
}

std::string ranks_text(const std::vector<int>& ranks) {
  return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", fmt::join(ranks, ", "));
}

}  // namespace lockstep::comm
