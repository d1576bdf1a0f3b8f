#pragma once

namespace lockstep::launch {

/// A TCP port of this host that is kept for a job until its rank 0 listens on it.
///
/// A port that is picked and then closed can be taken by anybody before rank 0 binds it.  So the socket stays open,
/// bound with SO_REUSEADDR but not listening: the kernel then gives the port to nobody who asks for any free one, but
/// lets a socket that also has SO_REUSEADDR, as every TCP server's, bind it and listen.  Rank 0 needs to know nothing
/// of this, whatever program it runs.
class PortReservation {
 public:
  /// port 0: any free one.  Throws ConfigError where somebody listens on `port`, or it is out of range.
  explicit PortReservation(int port = 0);
  ~PortReservation();
  PortReservation(const PortReservation&) = delete;
  PortReservation& operator=(const PortReservation&) = delete;

  [[nodiscard]] int port() const { return port_; }

 private:
  int fd_ = -1;
  int port_ = 0;
};

}  // namespace lockstep::launch
