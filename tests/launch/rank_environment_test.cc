#include "launch/rank_environment.h"

#include <gmock/gmock.h>

#include <map>
#include <thread>

#include "launch/connect.h"
#include "launch/port.h"
#include "lockstep/error.h"

namespace lockstep::launch {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using Variables = std::map<std::string, std::string>;

RankEnvironment read(const Variables& variables) {
  return rank_environment([&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

std::vector<std::string> problems(const Variables& variables) {
  try {
    read(variables);
  } catch (const ConfigError& error) {
    return error.problems();
  }
  return {};
}

const Variables kTorchrun{{"RANK", "3"},           {"WORLD_SIZE", "4"},
                          {"LOCAL_RANK", "1"},     {"LOCAL_WORLD_SIZE", "2"},
                          {"MASTER_ADDR", "node"}, {"MASTER_PORT", "29500"}};

Variables without(Variables variables, const std::string& name) {
  variables.erase(name);
  return variables;
}

Variables with(Variables variables, const std::string& name, const std::string& value) {
  variables[name] = value;
  return variables;
}

TEST(RankEnvironment, NothingSetIsOneRankAlone) {
  const RankEnvironment alone = read({});
  EXPECT_EQ(alone.rank, 0);
  EXPECT_EQ(alone.size, 1);
  EXPECT_EQ(alone.local_size, 1);
  EXPECT_EQ(alone.source, "");
}

TEST(RankEnvironment, ReadsTorchrunsVariables) {
  const RankEnvironment place = read(kTorchrun);
  EXPECT_EQ(place.rank, 3);
  EXPECT_EQ(place.size, 4);
  EXPECT_EQ(place.local_rank, 1);
  EXPECT_EQ(place.local_size, 2);
  EXPECT_TRUE(place.local_given);
  EXPECT_EQ(place.master_address, "node");
  EXPECT_EQ(place.master_port, 29500);
  EXPECT_FALSE(place.launcher_hosts_store);
}

TEST(RankEnvironment, TorchrunsAgentMayHostTheStore) {
  const RankEnvironment place =
      read(with(with(kTorchrun, "TORCHELASTIC_USE_AGENT_STORE", "True"), "TORCHELASTIC_RESTART_COUNT", "2"));
  EXPECT_TRUE(place.launcher_hosts_store);
  EXPECT_EQ(place.store_prefix, "attempt_2");
  EXPECT_FALSE(read(with(kTorchrun, "TORCHELASTIC_USE_AGENT_STORE", "False")).launcher_hosts_store);
}

TEST(RankEnvironment, HalfSetNamesTheMissingVariable) {
  EXPECT_THAT(problems(without(kTorchrun, "RANK")), ElementsAre(HasSubstr("RANK is not set, though WORLD_SIZE is")));
  EXPECT_THAT(problems(without(kTorchrun, "WORLD_SIZE")), ElementsAre(HasSubstr("WORLD_SIZE is not set, though RANK")));
  EXPECT_THAT(problems(without(kTorchrun, "MASTER_ADDR")), ElementsAre(HasSubstr("MASTER_ADDR is not set")));
  EXPECT_THAT(problems(without(kTorchrun, "MASTER_PORT")), ElementsAre(HasSubstr("MASTER_PORT is not set")));
  EXPECT_THAT(problems({{"RANK", "0"}, {"WORLD_SIZE", "2"}}),
              ElementsAre(HasSubstr("MASTER_ADDR is not set"), HasSubstr("MASTER_PORT is not set")));
  EXPECT_THAT(problems({{"MASTER_ADDR", "node"}}),
              ElementsAre(HasSubstr("MASTER_ADDR is set but RANK and WORLD_SIZE are not")));
  EXPECT_THAT(problems({{"LOCAL_RANK", "0"}}), ElementsAre(HasSubstr("LOCAL_RANK is set but RANK")));
  EXPECT_THAT(problems({{"OMPI_COMM_WORLD_RANK", "0"}}), ElementsAre(HasSubstr("OMPI_COMM_WORLD_SIZE is not set")));
}

TEST(RankEnvironment, AnEmptyValueCountsAsNotSet) {
  EXPECT_EQ(read({{"RANK", ""}, {"WORLD_SIZE", ""}}).size, 1);
  EXPECT_THAT(problems(with(kTorchrun, "MASTER_ADDR", "")), ElementsAre(HasSubstr("MASTER_ADDR is not set")));
}

TEST(RankEnvironment, OneRankNeedsNoMaster) { EXPECT_EQ(read({{"RANK", "0"}, {"WORLD_SIZE", "1"}}).size, 1); }

TEST(RankEnvironment, RefusesValuesOutOfRange) {
  EXPECT_THAT(problems(with(kTorchrun, "RANK", "4")),
              ElementsAre(HasSubstr("RANK=4: expected an integer from 0 to 3")));
  EXPECT_THAT(problems(with(kTorchrun, "RANK", "-1")), ElementsAre(HasSubstr("RANK=-1")));
  EXPECT_THAT(problems(with(kTorchrun, "RANK", "1x")), ElementsAre(HasSubstr("RANK=1x")));
  EXPECT_THAT(problems(with(kTorchrun, "WORLD_SIZE", "0")),
              ElementsAre(HasSubstr("WORLD_SIZE=0: expected an integer of at least 1")));
  EXPECT_THAT(problems(with(kTorchrun, "MASTER_PORT", "70000")),
              ElementsAre(HasSubstr("MASTER_PORT=70000: expected an integer from 1 to 65535")));
  EXPECT_THAT(problems(with(kTorchrun, "LOCAL_RANK", "2")), ElementsAre(HasSubstr("LOCAL_RANK=2")));
}

TEST(RankEnvironment, LocalPlaceIsGuessedUntilTheHostsTell) {
  const Variables bare = without(without(kTorchrun, "LOCAL_RANK"), "LOCAL_WORLD_SIZE");
  EXPECT_FALSE(read(bare).local_given);
  EXPECT_EQ(read(with(bare, "MASTER_ADDR", "127.0.0.1")).local_size, 4);
  EXPECT_EQ(read(bare).local_size, 1);
}

TEST(RankEnvironment, ReadsMpirunsVariables) {
  const Variables open_mpi{{"OMPI_COMM_WORLD_RANK", "1"},
                           {"OMPI_COMM_WORLD_SIZE", "2"},
                           {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                           {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                           {"PMIX_NAMESPACE", "job-1"}};
  const RankEnvironment place = read(open_mpi);
  EXPECT_EQ(place.rank, 1);
  EXPECT_EQ(place.local_rank, 1);
  // One host: nothing else is needed, and two jobs do not meet.
  EXPECT_EQ(place.master_address, "127.0.0.1");
  EXPECT_NE(place.master_port, read(with(open_mpi, "PMIX_NAMESPACE", "job-2")).master_port);
  EXPECT_THAT(problems(without(open_mpi, "PMIX_NAMESPACE")), ElementsAre(HasSubstr("MASTER_PORT is not set")));
  EXPECT_THAT(problems(with(open_mpi, "OMPI_COMM_WORLD_SIZE", "4")), ElementsAre(HasSubstr("MASTER_ADDR is not set")));

  const RankEnvironment pmi = read({{"PMI_RANK", "1"},
                                    {"PMI_SIZE", "2"},
                                    {"MPI_LOCALRANKID", "0"},
                                    {"MPI_LOCALNRANKS", "1"},
                                    {"MASTER_ADDR", "a"},
                                    {"MASTER_PORT", "1234"}});
  EXPECT_EQ(pmi.rank, 1);
  EXPECT_EQ(pmi.local_rank, 0);
  EXPECT_EQ(pmi.master_port, 1234);
}

TEST(RankEnvironment, ReadsSrunsVariables) {
  const Variables slurm{{"SLURM_JOB_ID", "77"}, {"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "2"},
                        {"SLURM_NTASKS", "4"},  {"SLURM_LOCALID", "0"}, {"SLURM_STEP_NODELIST", "n[03-04]"}};
  const RankEnvironment place = read(slurm);
  EXPECT_EQ(place.rank, 2);
  EXPECT_EQ(place.size, 4);
  EXPECT_EQ(place.master_address, "n03");
  EXPECT_GE(place.master_port, 20000);
  EXPECT_LT(place.master_port, 32000);
  EXPECT_NE(place.master_port, read(with(slurm, "SLURM_STEP_ID", "1")).master_port);
  EXPECT_EQ(read(with(slurm, "MASTER_ADDR", "other")).master_address, "other");
  EXPECT_EQ(read(with(slurm, "SLURM_NNODES", "1")).master_address, "127.0.0.1");
  // A batch script's shell is no task.
  EXPECT_EQ(read(without(slurm, "SLURM_STEP_ID")).size, 1);
}

TEST(RankEnvironment, TheMoreSpecificLauncherWins) {
  EXPECT_EQ(read(with(with(kTorchrun, "SLURM_PROCID", "0"), "SLURM_NTASKS", "1")).size, 4);
  EXPECT_EQ(read(with(with(kTorchrun, "OMPI_COMM_WORLD_RANK", "0"), "OMPI_COMM_WORLD_SIZE", "9")).rank, 3);
}

TEST(RankEnvironment, FirstHostOfASlurmList) {
  EXPECT_EQ(first_slurm_host("node1"), "node1");
  EXPECT_EQ(first_slurm_host("a,b"), "a");
  EXPECT_EQ(first_slurm_host("node[07-09,12],login"), "node07");
  EXPECT_EQ(first_slurm_host("rack[2,4]n[1-3]"), "rack2n1");
  EXPECT_EQ(first_slurm_host("n[5]-ib,m"), "n5-ib");
}

TEST(RankEnvironment, ReadsTheDeadline) {
  EXPECT_FALSE(read({}).deadline.has_value());
  EXPECT_EQ(read({{"LOCKSTEP_TIMEOUT", "2.5"}}).deadline, std::chrono::milliseconds(2500));
  for (const char* wrong : {"0", "-1", "x", "3s", "nan"})
    EXPECT_THAT(problems({{"LOCKSTEP_TIMEOUT", wrong}}), ElementsAre(HasSubstr("LOCKSTEP_TIMEOUT="))) << wrong;
}

TEST(Connect, OneRankAloneNeedsNoNetwork) {
  const World world = connect_as({}, {});
  EXPECT_EQ(world.size, 1);
  EXPECT_EQ(world.communicator->size(), 1);
  EXPECT_EQ(world.communicator->deadline(), std::chrono::seconds(1800));
  world.communicator->barrier("alone");
}

TEST(Connect, TheCallersDeadlineWinsOverTheEnvironments) {
  RankEnvironment environment;
  environment.deadline = std::chrono::seconds(5);
  EXPECT_EQ(connect_as(environment, {}).communicator->deadline(), std::chrono::seconds(5));
  EXPECT_EQ(connect_as(environment, {.deadline = std::chrono::seconds(3)}).communicator->deadline(),
            std::chrono::seconds(3));
  EXPECT_THROW(connect_as(environment, {.deadline = std::chrono::seconds(0)}), ConfigError);
}

TEST(Connect, RanksMeetWithNoLauncherAndCountThoseOfTheirHost) {
  const PortReservation port;
  std::vector<World> worlds(3);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&worlds, &port, rank] {
      const RankEnvironment environment = read({{"RANK", std::to_string(rank)},
                                                {"WORLD_SIZE", "3"},
                                                {"MASTER_ADDR", "127.0.0.1"},
                                                {"MASTER_PORT", std::to_string(port.port())}});
      worlds[static_cast<size_t>(rank)] = connect_as(environment, {.deadline = std::chrono::seconds(60)});
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int rank = 0; rank < 3; ++rank) {
    const World& world = worlds[static_cast<size_t>(rank)];
    EXPECT_EQ(world.rank, rank);
    EXPECT_EQ(world.communicator->rank(), rank);
    EXPECT_EQ(world.size, 3);
    EXPECT_EQ(world.local_rank, rank);
    EXPECT_EQ(world.local_size, 3);
  }
}

}  // namespace
}  // namespace lockstep::launch
