// One rank of gloo_communicator_test, as a process that may be killed and stopped:
//   comm_rank_program SCENARIO RANK SIZE PORT LISTEN_FD DEADLINE_MS
// Prints what happened; exits with 0, or 4 after a CommError, 2 after a ConfigError.
#include <ATen/ATen.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "comm/agreement.h"
#include "comm/exercise.h"
#include "comm/gloo/connect.h"
#include "lockstep/error.h"

namespace lockstep::comm {
namespace {

using std::chrono::milliseconds;

void say(const std::string& text) {
  std::printf("%s\n", text.c_str());
  std::fflush(stdout);
}

void receive(Communicator& group, int peer, int64_t numel, uint32_t tag, const char* what) {
  at::Tensor tensor = at::empty({numel}, at::kFloat);
  group.start_receive(tensor, peer, {.tag = tag, .what = what}).wait();
}

void send(Communicator& group, int peer, int64_t numel, uint32_t tag, const char* what) {
  at::Tensor tensor = at::ones({numel}, at::kFloat);
  group.start_send(tensor, peer, {.tag = tag, .what = what}).wait();
}

void exercise_all(Communicator& group) {
  char text[32];
  std::snprintf(text, sizeof text, "digest %016llx", static_cast<unsigned long long>(exercise(group)));
  exercise_splits(group);
  group.barrier("end");
  say(text);
}

/// Rank 1 ends itself with `signal` while the others wait for it.
void lose_rank_1(Communicator& group, int signal) {
  group.barrier("before");
  if (group.rank() == 1) {
    ::raise(signal);
    // Stopped and continued after its peers have left: the send must not end in SIGPIPE.
    for (int count = 0; count < 20; ++count) send(group, 0, 1 << 20, 1, "a late message");
  }
  receive(group, 1, 1000, 1, "gradients of layer 3");
}

void send_to_stopped(Communicator& group) {
  group.barrier("before");
  if (group.rank() == 1) ::raise(SIGSTOP);
  if (group.rank() == 0) send(group, 1, 16 << 20, 1, "weights of layer 2");
}

/// A subgroup is used for the first time after a member died.
void first_use_after_death(Communicator& group) {
  auto pair = group.split({0, 1});
  group.barrier("before");
  if (group.rank() == 1) ::raise(SIGKILL);
  std::this_thread::sleep_for(milliseconds(300));
  if (pair) pair->barrier("first use");
  group.barrier("after");
}

void differ_in_plan(Communicator& group) {
  try {
    verify_agreement(group, group.rank() == 1 ? 7 : 5, "the plan");
  } catch (const ConfigError& error) {
    group.barrier("still usable");
    throw;
  }
}

void differ_in_call(Communicator& group) {
  std::array<std::byte, 16> mine{};
  std::vector<std::byte> all(32);
  if (group.rank() == 0)
    group.all_gather_records(mine, all, "the norm");
  else
    group.barrier("saving a checkpoint");
}

/// Without lengths in the tags Gloo would end the process.
void differ_in_length(Communicator& group) {
  if (group.rank() == 0)
    send(group, 1, 100, 1, "x");
  else
    receive(group, 0, 50, 1, "x");
}

/// Rank 1 gets `signal`; a thread of rank 0 that waits for rank 2, which is well, learns of it.
void two_threads(Communicator& group, int signal) {
  group.barrier("before");
  if (group.rank() == 2) {
    std::this_thread::sleep_for(milliseconds(10'000));
    return;
  }
  if (group.rank() == 1) {
    std::this_thread::sleep_for(milliseconds(1'000));
    ::raise(signal);
  }
  at::Tensor a = at::empty({10}, at::kFloat);
  at::Tensor b = at::empty({10}, at::kFloat);
  auto from_1 = group.start_receive(a, 1, {.tag = 1, .what = "a"});
  std::string other;
  std::thread thread([&] {
    std::this_thread::sleep_for(milliseconds(500));
    try {
      group.start_receive(b, 2, {.tag = 1, .what = "b"}).wait();
    } catch (const CommError& error) {
      other = error.what();
    }
  });
  std::string mine;
  try {
    from_1.wait();
  } catch (const CommError& error) {
    mine = error.what();
  }
  thread.join();
  std::string later;
  try {
    group.barrier("later");
  } catch (const CommError& error) {
    later = error.what();
  }
  say(mine == other && mine == later ? "one failure" : mine + "\n" + other + "\n" + later);
  if (!mine.empty()) throw CommError(mine);
}

void run(const std::string& scenario, Communicator& group) {
  if (scenario == "exercise") return exercise_all(group);
  if (scenario == "killed") return lose_rank_1(group, SIGKILL);
  if (scenario == "stopped") return lose_rank_1(group, SIGSTOP);
  if (scenario == "send_to_stopped") return send_to_stopped(group);
  if (scenario == "first_use_after_death") return first_use_after_death(group);
  if (scenario == "differ_in_plan") return differ_in_plan(group);
  if (scenario == "differ_in_call") return differ_in_call(group);
  if (scenario == "differ_in_length") return differ_in_length(group);
  if (scenario == "two_threads") return two_threads(group, SIGSTOP);
  if (scenario == "two_threads_killed") return two_threads(group, SIGKILL);
  if (scenario == "connect") return;
  if (scenario == "sigpipe") {
    ::raise(SIGPIPE);
    return say("alive");
  }
  throw std::invalid_argument("no scenario " + scenario);
}

}  // namespace
}  // namespace lockstep::comm

int main(int argc, char** argv) {
  if (argc != 7) return 99;
  ::alarm(60);
  const int listen_fd = std::atoi(argv[5]);
  lockstep::comm::GlooOptions options{.rank = std::atoi(argv[2]),
                                      .size = std::atoi(argv[3]),
                                      .store_port = std::atoi(argv[4]),
                                      .host_store = std::atoi(argv[2]) == 0,
                                      .deadline = std::chrono::milliseconds(std::atoi(argv[6]))};
  if (options.host_store && listen_fd >= 0) options.listen_fd = listen_fd;
  int code = 0;
  try {
    auto group = lockstep::comm::connect_gloo(options);
    lockstep::comm::run(argv[1], *group);
  } catch (const lockstep::CommError& error) {
    lockstep::comm::say(error.what());
    code = 4;
  } catch (const lockstep::ConfigError& error) {
    lockstep::comm::say(error.what());
    code = 2;
  } catch (const std::exception& error) {
    lockstep::comm::say(error.what());
    code = 1;
  }
  // Threads that were left behind must not outlive what they use.
  ::_exit(code);
}
