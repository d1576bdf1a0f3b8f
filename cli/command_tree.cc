#include "command_tree.h"

#include <CLI/CLI.hpp>

namespace lockstep::cli {
namespace {

Argument argument(const CLI::Option& option) {
  Argument argument{.about = option.get_description(), .required = option.get_required()};
  for (const std::string& name : option.get_snames()) argument.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) argument.names.push_back("--" + name);
  if (option.get_positional()) argument.names = {option.get_name(true)};
  const std::string type = option.get_type_name();  // "INT:INT in [1 - 1024]"
  if (option.get_type_size_max() > 0) argument.value = type.substr(0, type.find(':'));
  return argument;
}

}  // namespace

Command command_tree(const CLI::App& app) {
  Command command{.name = app.get_name(), .about = app.get_description(), .footer = app.get_footer()};
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;
    (option->get_positional() ? command.positionals : command.options).push_back(argument(*option));
  }
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; }))
    command.commands.push_back(command_tree(*sub));
  return command;
}

}  // namespace lockstep::cli
