#include "completion.h"

#include <fmt/format.h>

#include <functional>

namespace lockstep::cli {
namespace {

/// Visits a command and all below it; path: "lockstep config check".
void for_each(const Command& command, const std::string& parent,
              const std::function<void(const Command&, const std::string& path)>& visit) {
  const std::string path = parent.empty() ? command.name : parent + " " + command.name;
  visit(command, path);
  for (const Command& below : command.commands) for_each(below, path, visit);
}

std::string words(const Command& command) {
  std::string text;
  for (const Command& below : command.commands) text += below.name + " ";
  for (const Argument& option : command.options)
    for (const std::string& name : option.names)
      if (name.starts_with("--")) text += name + " ";
  if (!text.empty()) text.pop_back();
  return text;
}

/// Inside '...' and, for _arguments and _describe, inside brackets and before colons.
std::string zsh_text(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\'')
      out += "'\\'";
    else if (c == '[' || c == ']' || c == ':' || c == '\\')
      out += '\\';
    out += c;
  }
  return out;
}

std::string zsh_function(const std::string& path) {
  std::string name = "_" + path;
  for (char& c : name)
    if (c == ' ' || c == '-') c = '_';
  return name;
}

std::string zsh_arguments(const Command& command) {
  std::string text;
  for (const Argument& option : command.options)
    for (const std::string& name : option.names)
      text += fmt::format(" \\\n    '{}[{}]{}'", name, zsh_text(option.about),
                          option.value.empty() ? "" : ":" + option.value + ":_files");
  for (const Argument& positional : command.positionals)
    text += fmt::format(" \\\n    ':{}:_files'", positional.names.front());
  return text;
}

std::string zsh_body(const Command& command, const std::string& path) {
  if (command.commands.empty()) return fmt::format("  _arguments{}\n", zsh_arguments(command));
  std::string about;
  std::string branches;
  for (const Command& below : command.commands) {
    about += fmt::format(" '{}:{}'", below.name, zsh_text(below.about));
    branches += fmt::format("        {}) {} ;;\n", below.name, zsh_function(path + " " + below.name));
  }
  return fmt::format(
      "  local line state\n  _arguments -C{} \\\n    '1: :->command' '*:: :->rest'\n"
      "  case $state in\n    command)\n      local -a commands=({})\n      _describe command commands ;;\n"
      "    rest)\n      case $line[1] in\n{}      esac ;;\n  esac\n",
      zsh_arguments(command), about, branches);
}

}  // namespace

std::string bash_completion(const Command& program) {
  std::string paths;
  std::string branches;
  for_each(program, "", [&](const Command& command, const std::string& path) {
    if (path != program.name) paths += fmt::format("{}\"{}\"", paths.empty() ? "" : " | ", path);
    branches += fmt::format("    \"{}\") words=\"{}\" ;;\n", path, words(command));
  });
  return fmt::format(
      "# bash completion for {0}; made by `{0} completion bash`\n"
      "_{0}() {{\n"
      "  local path={0} words= at\n"
      "  for ((at = 1; at < COMP_CWORD; ++at)); do\n"
      "    case \"$path ${{COMP_WORDS[at]}}\" in\n"
      "      {1}) path+=\" ${{COMP_WORDS[at]}}\" ;;\n"
      "    esac\n"
      "  done\n"
      "  case \"$path\" in\n{2}  esac\n"
      "  COMPREPLY=($(compgen -W \"$words\" -- \"${{COMP_WORDS[COMP_CWORD]}}\"))\n"
      "}}\n"
      "complete -o default -F _{0} {0}\n",
      program.name, paths, branches);
}

std::string zsh_completion(const Command& program) {
  std::string text =
      fmt::format("#compdef {0}\n# zsh completion for {0}; made by `{0} completion zsh`\n", program.name);
  for_each(program, "", [&](const Command& command, const std::string& path) {
    text += fmt::format("{}() {{\n{}}}\n", zsh_function(path), zsh_body(command, path));
  });
  return text + fmt::format("compdef {} {}\n", zsh_function(program.name), program.name);
}

}  // namespace lockstep::cli
