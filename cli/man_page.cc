#include "man_page.h"

#include <fmt/format.h>

#include <array>
#include <string_view>

#include "exit_codes.h"
#include "lockstep/version.h"

namespace lockstep::cli {
namespace {

struct ExitStatus {
  int code = 0;
  const char* meaning = "";
};
constexpr std::array kExitStatus{
    ExitStatus{kDone, "Done."},
    ExitStatus{kOurFault, "A fault of Lockstep's own."},
    ExitStatus{kBadInput, "The config or the command line asks for what cannot be."},
    ExitStatus{kInputOutput, "A file or a checkpoint could not be read or written."},
    ExitStatus{kCommunication, "A peer or the network failed, or a deadline passed."},
    ExitStatus{kDiverged, "Loss or gradients stayed non-finite."},
};

/// Text that roff takes as it stands: no escape, no request at a line's start.
std::string roff(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (out.empty() && (c == '.' || c == '\'')) out += "\\&";
    if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else
      out += c;
  }
  return out;
}

std::string item(const Argument& argument, bool positional) {
  std::string names;
  for (const std::string& name : argument.names) names += (names.empty() ? "\\fB" : ", \\fB") + roff(name) + "\\fR";
  if (positional)
    names = fmt::format("\\fI{}\\fR", roff(argument.names.front()));
  else if (!argument.value.empty())
    names += fmt::format(" \\fI{}\\fR", roff(argument.value));
  return fmt::format(".TP\n{}\n{}{}\n", names, roff(argument.about), argument.required ? " (required)" : "");
}

std::string items(const Command& command) {
  std::string text;
  for (const Argument& argument : command.positionals) text += item(argument, true);
  for (const Argument& argument : command.options) text += item(argument, false);
  return text;
}

/// The commands below `parent` that do something, each with its options.
std::string sections(const Command& parent, const std::string& prefix) {
  std::string text;
  for (const Command& command : parent.commands) {
    const std::string path = prefix + " " + command.name;
    if (command.commands.empty())
      text += fmt::format(".SS {}\n{}.\n{}.PP\n{}\n", roff(path), roff(command.about), items(command),
                          roff(command.footer));
    text += sections(command, path);
  }
  return text;
}

}  // namespace

std::string man_page(const Command& program) {
  std::string text = fmt::format(".TH LOCKSTEP 1 \"\" \"lockstep {}\" \"User Commands\"\n", version());
  text += fmt::format(".SH NAME\n{} \\- {}\n", program.name, roff(program.about));
  text += fmt::format(".SH SYNOPSIS\n.B {}\n\\fICOMMAND\\fR [\\fIOPTIONS\\fR]\n", program.name);
  text += ".SH OPTIONS\n" + items(program);
  text += ".SH COMMANDS\n" + sections(program, program.name);
  text += ".SH EXIT STATUS\n";
  for (const auto& [code, meaning] : kExitStatus) text += fmt::format(".TP\n{}\n{}\n", code, roff(meaning));
  return text;
}

}  // namespace lockstep::cli
