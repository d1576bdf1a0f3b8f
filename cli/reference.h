#pragma once

namespace CLI {
class App;
}

namespace lockstep::cli {

/// "lockstep completion" and "lockstep man": what `app`, with all its other sub-commands, says of itself.
void add_reference_commands(CLI::App& app);

}  // namespace lockstep::cli
