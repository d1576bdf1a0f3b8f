#pragma once

namespace CLI {
class App;
}

namespace lockstep::cli {

/// "lockstep config check|show|explain|schema".
void add_config_command(CLI::App& app, int& exit_code);

}  // namespace lockstep::cli
