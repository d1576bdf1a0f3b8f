// What the program says of itself: manual page, completion, words that it does not know.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>

#include "completion.h"
#include "man_page.h"
#include "program.h"

namespace lockstep::cli {
namespace {

using testing::HasSubstr;

Command program() {
  Command check{.name = "check",
                .about = "Reports every problem",
                .footer = "Example: prog config check FILE",
                .positionals = {{.names = {"FILE"}, .value = "TEXT", .about = "The file", .required = true}},
                .options = {{.names = {"-w", "--world"}, .value = "INT", .about = "Ranks: [how many] it's"},
                            {.names = {"--json"}, .about = ".json \\ - out"}}};
  Command config{.name = "config", .about = "Checks", .commands = {check}};
  return {.name = "prog", .about = "Trains", .options = {{.names = {"--help"}}}, .commands = {config}};
}

/// What bash completes `line` to, one word a line; the last word of `line` is the one under the cursor.
std::string complete(const std::string& line) {
  const std::string script = testing::TempDir() + "lockstep_completion.bash";
  std::ofstream(script) << bash_completion(program()) << "COMP_WORDS=(" << line
                        << ")\nCOMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n_prog\necho \"${COMPREPLY[@]}\"\n";
  std::FILE* pipe = ::popen(("bash " + script + " 2>&1").c_str(), "r");
  std::string out;
  for (int c = 0; (c = std::fgetc(pipe)) != EOF;) out += static_cast<char>(c);
  ::pclose(pipe);
  return out;
}

TEST(ReferenceTest, BashCompletesCommandsAndTheirOptions) {
  EXPECT_EQ(complete("prog \"\""), "config --help\n");
  EXPECT_EQ(complete("prog co"), "config\n");
  EXPECT_EQ(complete("prog config ch"), "check\n");
  EXPECT_EQ(complete("prog config check x.json --"), "--world --json\n");
  EXPECT_EQ(complete("prog config check x.j"), "\n");  // File names are the shell's.
}

TEST(ReferenceTest, ZshIsGivenDescriptions) {
  const std::string script = zsh_completion(program());
  EXPECT_THAT(script, HasSubstr("#compdef prog"));
  EXPECT_THAT(script, HasSubstr("'--world[Ranks\\: \\[how many\\] it'\\''s]:INT:_files'"));
  EXPECT_THAT(script, HasSubstr("commands=( 'check:Reports every problem')"));
  EXPECT_THAT(script, HasSubstr("check) _prog_config_check ;;"));
}

TEST(ReferenceTest, ManualNamesEveryCommandOptionAndExitStatus) {
  const std::string page = man_page(program());
  EXPECT_THAT(page, HasSubstr(".SS prog config check\nReports every problem.\n"));
  EXPECT_THAT(page, HasSubstr("\\fB\\-w\\fR, \\fB\\-\\-world\\fR \\fIINT\\fR\nRanks"));
  EXPECT_THAT(page, HasSubstr("\\fIFILE\\fR\nThe file (required)\n"));
  EXPECT_THAT(page, HasSubstr("\n\\&.json \\e \\- out\n"));
  EXPECT_THAT(page, HasSubstr(".SH EXIT STATUS\n.TP\n0\n"));
}

TEST(ReferenceTest, TheProgramDescribesItself) {
  testing::internal::CaptureStdout();
  EXPECT_EQ(run_program({"man"}), 0);
  std::fflush(stdout);
  const std::string page = testing::internal::GetCapturedStdout();
  EXPECT_THAT(page, HasSubstr(".SS lockstep bench zero_comm\n"));
  EXPECT_THAT(page, testing::Not(HasSubstr("\\-\\-rows")));  // Hidden.
  testing::internal::CaptureStdout();
  EXPECT_EQ(run_program({"completion", "bash"}), 0);
  std::fflush(stdout);
  EXPECT_THAT(testing::internal::GetCapturedStdout(), HasSubstr("complete -o default -F _lockstep lockstep"));
}

std::string refusal(const std::vector<std::string>& words) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(run_program(words), 2);
  return testing::internal::GetCapturedStderr();
}

TEST(ReferenceTest, AnUnknownSubCommandIsToldTheNearest) {
  EXPECT_EQ(refusal({"trian", "--steps", "1"}), "lockstep: unknown sub-command \"trian\"; did you mean \"train\"?\n");
  EXPECT_EQ(refusal({"config", "chekc"}), "lockstep: unknown sub-command \"chekc\"; did you mean \"check\"?\n");
  EXPECT_THAT(refusal({"zzzzzz"}), HasSubstr("expected \"train\", \"config\","));
}

}  // namespace
}  // namespace lockstep::cli
