#include "launch/orphan_guard.h"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "lockstep/error.h"

namespace lockstep::launch {
namespace {

constexpr pid_t kDismissed = 0;

/// The guard's life.  Only async-signal-safe calls: its maker may have had threads that held locks.
[[noreturn]] void guard(int socket) {
  ::setsid();
  ::prctl(PR_SET_NAME, "lockstep-guard");
  sigset_t all;
  sigfillset(&all);
  ::sigprocmask(SIG_BLOCK, &all, nullptr);
  ::dup2(socket, 0);
  ::close_range(1, ~0U, 0);
  static std::array<pid_t, 4096> groups;
  size_t count = 0;
  while (true) {
    pid_t message = 0;
    const ssize_t got = ::recv(0, &message, sizeof message, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got != sizeof message) break;  // The maker died.
    if (message == kDismissed) ::_exit(0);
    if (message > 0 && count < groups.size()) groups[count++] = message;
    for (size_t i = 0; i < count; ++i) {
      if (groups[i] != -message) continue;
      groups[i] = groups[--count];
      break;
    }
  }
  for (size_t i = 0; i < count; ++i) ::kill(-groups[i], SIGKILL);
  ::_exit(0);
}

}  // namespace

OrphanGuard::OrphanGuard() {
  int sockets[2];
  // Packets, so that a message is whole or absent.
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0)
    throw IoError(fmt::format("cannot make a socket: {}", std::strerror(errno)));
  const pid_t between = ::fork();
  if (between == 0) {
    ::close(sockets[0]);
    if (::fork() == 0) guard(sockets[1]);
    ::_exit(0);
  }
  const int error = errno;
  ::close(sockets[1]);
  socket_ = sockets[0];
  if (between < 0) {
    ::close(socket_);
    throw IoError(fmt::format("cannot start a process: {}", std::strerror(error)));
  }
  while (::waitpid(between, nullptr, 0) < 0 && errno == EINTR) {
  }
}

OrphanGuard::~OrphanGuard() {
  tell(kDismissed);
  char none;
  while (::recv(socket_, &none, 1, 0) < 0 && errno == EINTR) {
  }
  ::close(socket_);
}

void OrphanGuard::tell(pid_t message) {
  // Without a guard (the host allowed no second process) the ranks themselves still die with their launcher.
  while (::send(socket_, &message, sizeof message, MSG_NOSIGNAL) < 0 && errno == EINTR) {
  }
}

}  // namespace lockstep::launch
