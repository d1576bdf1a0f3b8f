#include "reference.h"

#include <CLI/CLI.hpp>
#include <cstdio>

#include "command_tree.h"
#include "completion.h"
#include "man_page.h"

namespace lockstep::cli {
namespace {

using Text = std::string (*)(const Command&);

void add_text(CLI::App& parent, const CLI::App& described, const char* name, const char* about, const char* example,
              Text text) {
  CLI::App* command = parent.add_subcommand(name, about);
  command->footer(std::string("Example: ") + example);
  command->callback([&described, text] { std::fputs(text(command_tree(described)).c_str(), stdout); });
}

}  // namespace

void add_reference_commands(CLI::App& app) {
  CLI::App* completion = app.add_subcommand("completion", "Prints a script that completes this program's words");
  completion->footer("Example: source <(lockstep completion bash)");
  completion->require_subcommand(1);
  add_text(*completion, app, "bash", "For bash", "source <(lockstep completion bash)", bash_completion);
  add_text(*completion, app, "zsh", "For zsh", "source <(lockstep completion zsh)", zsh_completion);
  add_text(app, app, "man", "Prints the manual page", "lockstep man | man -l -", man_page);
}

}  // namespace lockstep::cli
