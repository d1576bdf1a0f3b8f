#pragma once

namespace CLI {
class App;
}

namespace lockstep::cli {

/// "lockstep bench roof|train|gemm|zero_mem|zero_comm".
void add_bench_command(CLI::App& app, int& exit_code);

}  // namespace lockstep::cli
