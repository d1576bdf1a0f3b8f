"""Holds the documents to what is there: links, anchors, the program's command lines, config snippets.

usage: check_docs.py PROGRAM      exits 1 and names each problem

Command lines are `lockstep ...` in code, in README.md and docs/; a fenced block "```json ds_config" is a config.
"""
import functools
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
FENCE = re.compile(r"^\s*```(.*)$")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
SPAN = re.compile(r"`([^`]+)`")
COMMAND = re.compile(r"(?<![\w./\"-])(?:build/release/)?lockstep( [^`()|>;&#]*)")


def documents() -> list[pathlib.Path]:
    return sorted(path for pattern in ("*.md", "docs/**/*.md", "examples/**/*.md", "tests/**/*.md")
                  for path in ROOT.glob(pattern))


def split(text: str) -> tuple[list[tuple[int, str]], list[tuple[int, str, str]]]:
    """(line number, line) of prose, and (line number, info, text) of fenced blocks."""
    prose, blocks, block = [], [], None
    for number, line in enumerate(text.splitlines(), 1):
        fence = FENCE.match(line)
        if fence and block is None:
            block = (number, fence.group(1).strip(), [])
        elif fence:
            blocks.append((block[0], block[1], "\n".join(block[2])))
            block = None
        elif block is not None:
            block[2].append(line)
        else:
            prose.append((number, line))
    return prose, blocks


@functools.cache
def anchors(path: pathlib.Path) -> set[str]:
    """A heading's anchors as GitHub makes them."""
    found, seen = set(), {}
    for _, line in split(path.read_text())[0]:
        if match := re.match(r"#+ (.*)", line):
            slug = re.sub(r"[^\w\- ]", "", match.group(1).strip().lower()).replace(" ", "-")
            count = seen.get(slug, 0)
            seen[slug] = count + 1
            found.add(f"{slug}-{count}" if count else slug)
    return found


def link_problem(path: pathlib.Path, target: str) -> str | None:
    if re.match(r"[a-z]+:", target):
        return None
    name, _, anchor = target.partition("#")
    file = (path.parent / name).resolve() if name else path
    if not file.exists():
        return f"link {target}: there is no {name}"
    if anchor and anchor not in anchors(file):
        return f"link {target}: {file.name} has no heading with this anchor"
    return None


class Program:
    """What the program's --help says of its commands."""

    def __init__(self, path: str):
        self.path = path

    def run(self, *words: str) -> subprocess.CompletedProcess:
        return subprocess.run([self.path, *words], capture_output=True, text=True, check=False)

    @functools.cache
    def help(self, *words: str) -> tuple[list[str], set[str], str]:
        """Sub-commands, options, and the last line."""
        text = self.run(*words, "--help").stdout
        _, _, below = text.partition("\nSubcommands:\n")
        commands = re.findall(r"^  (\w[\w-]*)", below.split("\n\n")[0], re.M)
        names = re.findall(r"^  (-\S+)", text, re.M)
        return commands, {name for group in names for name in group.split(",")}, text.rstrip().rpartition("\n")[2]

    def problem(self, line: str) -> str | None:
        """Of the command line `lockstep` + line."""
        path, words = [], line.split()
        while words and (commands := self.help(*path)[0]):
            if words[0].startswith("-") or words[0] == "...":
                break
            if words[0] not in commands:
                return f"lockstep{line}: {' '.join(['lockstep', *path])} has no sub-command {words[0]}"
            path.append(words.pop(0))
        options = self.help(*path)[1]
        for word in words:
            if word.startswith("-") and word.partition("=")[0].rstrip(",.:") not in options:
                return f"lockstep{line}: {' '.join(['lockstep', *path])} has no option {word}"
        return None

    def examples(self, *path: str) -> list[str]:
        """Problems of each command's last line of help, which must be an example of it."""
        commands, _, last = self.help(*path)
        called = " ".join(["lockstep", *path])
        problems = []
        if not last.startswith("Example: ") or called not in last:
            problems.append(f"{called} --help: does not end with an example of it")
        problems += [f"{called} --help: {problem}" for line in COMMAND.findall(last) if (problem := self.problem(line))]
        return problems + [problem for name in commands for problem in self.examples(*path, name)]

    def config_problem(self, text: str) -> str | None:
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            file.write(text)
            file.flush()
            done = self.run("config", "check", file.name)
        return None if done.returncode == 0 else "config: " + done.stderr.strip().replace(file.name, "it")


def check(path: pathlib.Path, program: Program) -> list[str]:
    prose, blocks = split(path.read_text())
    problems = [(number, link_problem(path, target)) for number, line in prose
                for target in LINK.findall(SPAN.sub("", line))]
    if path.parent == ROOT / "docs" or path == ROOT / "README.md":
        code = [(number, span) for number, line in prose for span in SPAN.findall(line)]
        code += [(start + at, line) for start, info, text in blocks if not info
                 for at, line in enumerate(text.splitlines(), 1)]
        problems += [(number, program.problem(words)) for number, line in code for words in COMMAND.findall(line)]
    problems += [(number, program.config_problem(text)) for number, info, text in blocks if info == "json ds_config"]
    return [f"{path.relative_to(ROOT)}:{number}: {problem}" for number, problem in problems if problem]


def main() -> int:
    program = Program(sys.argv[1])
    problems = program.examples() + [problem for path in documents() for problem in check(path, program)]
    for problem in problems:
        print(problem)
    print(f"docs: {len(documents())} documents, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
