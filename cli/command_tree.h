#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace lockstep::cli {

/// An option, a flag or a positional argument.
struct Argument {
  std::vector<std::string>
      names{};          ///< As typed: "-h", "--help"; a positional's one name stands for its value: "FILE".
  std::string value{};  ///< The kind of its value, "INT"; empty for a flag.
  std::string about{};
  bool required = false;
};

/// A command as its --help describes it, sub-commands included; what manual and completion are made from.
struct Command {
  std::string name{};  ///< The last word: "check".
  std::string about{};
  std::string footer{};  ///< Its example.
  std::vector<Argument> positionals{};
  std::vector<Argument> options{};
  std::vector<Command> commands{};
};

/// What `app` declares, but for what it hides from its help.
Command command_tree(const CLI::App& app);

}  // namespace lockstep::cli
