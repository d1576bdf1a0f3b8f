#include "launch/port.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "lockstep/error.h"

namespace lockstep::launch {

PortReservation::PortReservation(int port) {
  if (port < 0 || port > 65535)
    throw ConfigError(
        fmt::format("--master_port {}: a port is a number from 1 to 65535; leave it out to use any free "
                    "one",
                    port));
  fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  address.sin_port = htons(static_cast<uint16_t>(port));
  socklen_t length = sizeof address;
  if (fd_ >= 0 && ::setsockopt(fd_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
      ::bind(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
      ::getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &length) == 0) {
    port_ = ntohs(address.sin_port);
    return;
  }
  const int error = errno;
  if (fd_ >= 0) ::close(fd_);
  if (port == 0) throw IoError(fmt::format("cannot find a free port on this host: {}", std::strerror(error)));
  throw ConfigError(
      fmt::format("--master_port {}: cannot be used: {}; name another port, or leave it out to use any "
                  "free one",
                  port, std::strerror(error)));
}

PortReservation::~PortReservation() { ::close(fd_); }

}  // namespace lockstep::launch
