#include "launch/port.h"

#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lockstep/error.h"

namespace lockstep::launch {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// A server as TCP stores have them: all addresses of both families.
class Server {
 public:
  explicit Server(int port) : fd_(::socket(AF_INET6, SOCK_STREAM, 0)) {
    const int on = 1;
    const int off = 0;
    ::setsockopt(fd_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    ::setsockopt(fd_, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    sockaddr_in6 address{};
    address.sin6_family = AF_INET6;
    address.sin6_addr = in6addr_any;
    address.sin6_port = htons(static_cast<uint16_t>(port));
    listening_ = ::bind(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 && ::listen(fd_, 8) == 0;
  }
  ~Server() { ::close(fd_); }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  [[nodiscard]] bool listening() const { return listening_; }

 private:
  int fd_;
  bool listening_;
};

bool can_connect(int port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  const bool connected = ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  ::close(fd);
  return connected;
}

TEST(PortReservationTest, RankZeroCanListenWhileThePortIsKept) {
  const PortReservation reservation;
  ASSERT_GT(reservation.port(), 0);
  EXPECT_FALSE(can_connect(reservation.port()));
  const Server server(reservation.port());
  EXPECT_TRUE(server.listening());
  EXPECT_TRUE(can_connect(reservation.port()));
}

TEST(PortReservationTest, NobodyElseIsGivenThePort) {
  const PortReservation first;
  for (int i = 0; i < 200; ++i) EXPECT_NE(PortReservation().port(), first.port());
}

TEST(PortReservationTest, ABusyPortIsRefusedWithItsNumberAndFlag) {
  const PortReservation reservation;
  const Server server(reservation.port());
  EXPECT_THAT([&] { const PortReservation second(reservation.port()); },
              ThrowsMessage<ConfigError>(
                  AllOf(HasSubstr("--master_port " + std::to_string(reservation.port())), HasSubstr("in use"))));
  EXPECT_THROW(PortReservation(65536), ConfigError);
  EXPECT_THROW(PortReservation(-1), ConfigError);
}

TEST(PortReservationTest, APortCanBeUsedAgainAtOnce) {
  int port = 0;
  {
    const PortReservation reservation;
    port = reservation.port();
    const Server server(port);
    EXPECT_TRUE(can_connect(port));
  }
  EXPECT_EQ(PortReservation(port).port(), port);
}

}  // namespace
}  // namespace lockstep::launch
