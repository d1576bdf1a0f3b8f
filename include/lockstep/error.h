#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "lockstep/export.h"

namespace LOCKSTEP_API lockstep {

/// Base of every error that Lockstep throws on purpose.  what() is one complete message: what went wrong, where,
/// what was expected, what to do.  The library throws; it never prints, exits or aborts.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The config, the command line or a call's arguments ask for something that cannot be.  Carries every problem
/// found, one message each; what() is the messages joined by newlines.  The program exits with 2.
class ConfigError : public Error {
 public:
  explicit ConfigError(std::vector<std::string> problems);
  explicit ConfigError(const std::string& problem);
  [[nodiscard]] const std::vector<std::string>& problems() const { return problems_; }

 private:
  std::vector<std::string> problems_;
};

/// A file or a device could not be read or written.  The program exits with 3.
class IoError : public Error {
 public:
  using Error::Error;
};

/// A checkpoint is missing, incomplete, damaged or of another model.  The program exits with 3.
class CheckpointError : public Error {
 public:
  using Error::Error;
};

/// A peer, the store or the network failed, or a deadline passed.  The communicator that threw, and every one of
/// the same process group, is unusable afterwards.  The program exits with 4.
class CommError : public Error {
 public:
  using Error::Error;
};

/// Training cannot go on: loss or gradients stayed non-finite.  The program exits with 5.
class DivergedError : public Error {
 public:
  using Error::Error;
};

}  // namespace lockstep
