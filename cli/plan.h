#pragma once

namespace CLI {
class App;
}

namespace lockstep::cli {

/// "lockstep plan": who holds what, predicted memory and bytes, without training.
void add_plan_command(CLI::App& app, int& exit_code);

}  // namespace lockstep::cli
