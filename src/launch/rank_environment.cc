#include "launch/rank_environment.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cstdlib>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

#include "lockstep/error.h"

namespace lockstep::launch {
namespace {

/// The names under which a family of launchers tells a rank its place; the first that is set counts.
struct Family {
  std::string_view name;
  std::array<const char*, 2> rank;
  std::array<const char*, 3> size;
  std::array<const char*, 2> local_rank;
  std::array<const char*, 2> local_size;
  bool tells_master;  ///< MASTER_ADDR and MASTER_PORT belong to it; else they may be derived.
};

constexpr Family kTorchrun{.name = "torchrun variables",
                           .rank = {"RANK"},
                           .size = {"WORLD_SIZE"},
                           .local_rank = {"LOCAL_RANK"},
                           .local_size = {"LOCAL_WORLD_SIZE", "LOCAL_SIZE"},
                           .tells_master = true};
constexpr Family kOpenMpi{.name = "Open MPI",
                          .rank = {"OMPI_COMM_WORLD_RANK"},
                          .size = {"OMPI_COMM_WORLD_SIZE"},
                          .local_rank = {"OMPI_COMM_WORLD_LOCAL_RANK"},
                          .local_size = {"OMPI_COMM_WORLD_LOCAL_SIZE"},
                          .tells_master = false};
constexpr Family kPmi{.name = "MPI",
                      .rank = {"PMI_RANK"},
                      .size = {"PMI_SIZE"},
                      .local_rank = {"MPI_LOCALRANKID", "PMI_LOCAL_RANK"},
                      .local_size = {"MPI_LOCALNRANKS", "PMI_LOCAL_SIZE"},
                      .tells_master = false};
constexpr Family kSlurm{.name = "Slurm",
                        .rank = {"SLURM_PROCID"},
                        .size = {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_NPROCS"},
                        .local_rank = {"SLURM_LOCALID"},
                        .local_size = {},
                        .tells_master = false};

class Reader {
 public:
  explicit Reader(const VariableLookup& lookup) : lookup_(lookup) {}

  RankEnvironment read();

 private:
  /// Null also for an empty value, which scripts use for "not set".
  const char* get(const char* name) const {
    const char* value = name == nullptr ? nullptr : lookup_(name);
    return value != nullptr && *value != '\0' ? value : nullptr;
  }
  bool any(std::span<const char* const> names) const { return first(names) != nullptr; }
  /// The first name that is set, or null.
  const char* first(std::span<const char* const> names) const {
    for (const char* name : names)
      if (get(name) != nullptr) return name;
    return nullptr;
  }
  void problem(std::string text) { problems_.push_back(std::move(text)); }
  std::optional<int> integer(const char* name, int least, int most);

  const Family* find_family();
  void read_place(const Family& family, RankEnvironment& result);
  void read_master(const Family& family, RankEnvironment& result);
  std::string derived_address(const RankEnvironment& result) const;
  int derived_port() const;
  void read_deadline(RankEnvironment& result);

  const VariableLookup& lookup_;
  std::vector<std::string> problems_;
};

std::optional<int> Reader::integer(const char* name, int least, int most) {
  const std::string_view text = get(name);
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size() && value >= least && value <= most) return value;
  const std::string range = most == std::numeric_limits<int>::max()
                                ? fmt::format("an integer of at least {}", least)
                                : fmt::format("an integer from {} to {}", least, most);
  problem(fmt::format("environment: {}={}: expected {}", name, text, range));
  return std::nullopt;
}

const Family* Reader::find_family() {
  if (any(kTorchrun.rank) || any(kTorchrun.size)) return &kTorchrun;
  if (any(kOpenMpi.rank) || any(kOpenMpi.size)) return &kOpenMpi;
  // Before Slurm: under mpirun in a Slurm job, Slurm's variables are those of mpirun's own helpers.
  if (any(kPmi.rank) || any(kPmi.size)) return &kPmi;
  // A batch script's own shell has a rank and a size too, but is no task of a step.
  const bool batch_shell =
      get("SLURM_JOB_ID") != nullptr && get("SLURM_STEP_ID") == nullptr && get("MASTER_ADDR") == nullptr;
  if (any(kSlurm.rank) && !batch_shell) return &kSlurm;
  for (const char* name : {"LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"}) {
    if (get(name) == nullptr) continue;
    problem(fmt::format(
        "environment: {} is set but RANK and WORLD_SIZE are not; set them too, or unset {} to run alone", name, name));
    break;
  }
  return nullptr;
}

void Reader::read_place(const Family& family, RankEnvironment& result) {
  const char* const rank_name = first(family.rank);
  const char* const size_name = first(family.size);
  if (rank_name == nullptr)
    problem(fmt::format("environment: {} is not set, though {} is; it is this process's number, from 0", family.rank[0],
                        size_name));
  if (size_name == nullptr)
    problem(fmt::format("environment: {} is not set, though {} is; it is the number of processes", family.size[0],
                        rank_name));
  if (size_name != nullptr) result.size = integer(size_name, 1, std::numeric_limits<int>::max()).value_or(1);
  const bool size_known = size_name != nullptr && problems_.empty();
  if (rank_name != nullptr)
    result.rank = integer(rank_name, 0, size_known ? result.size - 1 : std::numeric_limits<int>::max()).value_or(0);
  if (!problems_.empty()) return;

  const char* const local_rank = first(family.local_rank);
  const char* const local_size = first(family.local_size);
  if (local_size != nullptr) result.local_size = integer(local_size, 1, result.size).value_or(1);
  if (local_rank != nullptr)
    result.local_rank =
        integer(local_rank, 0, (local_size != nullptr ? result.local_size : result.size) - 1).value_or(0);
  result.local_given = local_rank != nullptr && local_size != nullptr;
}

std::string Reader::derived_address(const RankEnvironment& result) const {
  const bool one_host = result.local_given && result.local_size == result.size;
  const char* const nodes_count = first(std::array{"SLURM_STEP_NUM_NODES", "SLURM_NNODES"});
  if (one_host || (nodes_count != nullptr && std::string_view(get(nodes_count)) == "1")) return "127.0.0.1";
  const char* const nodes = first(std::array{"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"});
  return nodes == nullptr ? std::string() : first_slurm_host(get(nodes));
}

int Reader::derived_port() const {
  // Two jobs on one host must not meet: the port comes from the job's name, below the ports that systems hand out.
  std::string job;
  if (const char* const name = first(std::array{"SLURM_JOB_ID", "SLURM_JOBID"})) {
    job = get(name);
    if (const char* const step = get("SLURM_STEP_ID")) job += std::string(".") + step;
  } else if (const char* const other =
                 first(std::array{"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "OMPI_MCA_orte_hnp_uri", "PMI_JOBID"})) {
    job = get(other);
  } else {
    return 0;
  }
  uint32_t hash = 2166136261U;
  for (const char letter : job) hash = (hash ^ static_cast<unsigned char>(letter)) * 16777619U;
  return 20000 + static_cast<int>(hash % 12000U);
}

void Reader::read_master(const Family& family, RankEnvironment& result) {
  if (const char* const address = get("MASTER_ADDR"))
    result.master_address = address;
  else if (!family.tells_master)
    result.master_address = derived_address(result);
  if (get("MASTER_PORT") != nullptr)
    result.master_port = integer("MASTER_PORT", 1, 65535).value_or(-1);
  else if (!family.tells_master)
    result.master_port = derived_port();
  if (result.master_address.empty())
    problem(
        fmt::format("environment: MASTER_ADDR is not set, which the {} processes need: the host of rank 0, the same "
                    "on all",
                    result.size));
  if (result.master_port == 0)
    problem(
        fmt::format("environment: MASTER_PORT is not set, which the {} processes need: a free port on the host of "
                    "rank 0, the same on all",
                    result.size));
  const char* const agent = get("TORCHELASTIC_USE_AGENT_STORE");
  if (family.tells_master && agent != nullptr && std::string_view(agent) == "True") {
    result.launcher_hosts_store = true;
    const char* const attempt = get("TORCHELASTIC_RESTART_COUNT");
    result.store_prefix = fmt::format("attempt_{}", attempt == nullptr ? "0" : attempt);
  }
}

void Reader::read_deadline(RankEnvironment& result) {
  const char* const text = get("LOCKSTEP_TIMEOUT");
  if (text == nullptr) return;
  const std::string_view view = text;
  double seconds = 0;
  const auto [end, error] = std::from_chars(view.data(), view.data() + view.size(), seconds);
  constexpr double kMostSeconds = 1e9;
  if (error == std::errc() && end == view.data() + view.size() && seconds >= 0.001 && seconds <= kMostSeconds)
    result.deadline = std::chrono::milliseconds(static_cast<int64_t>(seconds * 1e3));
  else
    problem(fmt::format("environment: LOCKSTEP_TIMEOUT={}: expected seconds, a number of at least 0.001", view));
}

RankEnvironment Reader::read() {
  RankEnvironment result;
  read_deadline(result);
  const Family* const family = find_family();
  if (family != nullptr) {
    result.source = family->name;
    const size_t before = problems_.size();
    read_place(*family, result);
    if (problems_.size() == before && result.size > 1) read_master(*family, result);
    if (problems_.empty() && !result.local_given && result.size > 1) {
      const bool loopback = result.master_address.starts_with("127.") || result.master_address == "localhost";
      result.local_size = loopback ? result.size : std::max(1, result.local_rank + 1);
    }
  }
  if (const char* const interface = get("GLOO_SOCKET_IFNAME")) result.interface = interface;
  if (!problems_.empty()) throw ConfigError(problems_);
  return result;
}

}  // namespace

RankEnvironment rank_environment(const VariableLookup& lookup) { return Reader(lookup).read(); }

RankEnvironment rank_environment() {
  return rank_environment([](const char* name) -> const char* { return std::getenv(name); });
}

std::string first_slurm_host(const std::string& nodes) {
  std::string host;
  bool inside = false;    // of brackets
  bool skipping = false;  // what follows the first of a bracket's numbers
  for (const char letter : nodes) {
    if (letter == '[') {
      inside = true;
      skipping = false;
    } else if (letter == ']') {
      inside = false;
    } else if (inside) {
      skipping = skipping || letter == ',' || letter == '-';
      if (!skipping) host += letter;
    } else if (letter == ',') {
      break;
    } else {
      host += letter;
    }
  }
  return host;
}

}  // namespace lockstep::launch
