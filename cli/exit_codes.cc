#include "exit_codes.h"

#include <cstdio>

#include "lockstep/error.h"

namespace lockstep::cli {

int guarded(const std::function<int()>& command, int rank) {
  const auto say = [](const std::exception& error) { std::fprintf(stderr, "lockstep: %s\n", error.what()); };
  try {
    return command();
  } catch (const ConfigError& error) {
    if (rank == 0)
      for (const std::string& problem : error.problems()) std::fprintf(stderr, "lockstep: %s\n", problem.c_str());
    return kBadInput;
  } catch (const IoError& error) {
    say(error);
    return kInputOutput;
  } catch (const CheckpointError& error) {
    say(error);
    return kInputOutput;
  } catch (const CommError& error) {
    say(error);
    return kCommunication;
  } catch (const DivergedError& error) {
    say(error);
    return kDiverged;
  } catch (const std::exception& error) {
    say(error);
    return kOurFault;
  }
}

}  // namespace lockstep::cli
