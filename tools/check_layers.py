"""Holds the source tree to its structure: who may include whom, what headers may pull in, names, lengths, tests.

usage: check_layers.py            exits 1 and names each violation
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# In dependency order: a folder includes only from itself and from folders before it.
LAYERS = ["base", "config", "plan", "lr", "kernels", "tensor", "comm", "data", "model", "optim", "precision", "zero",
          "checkpoint", "monitor", "launch", "engine"]
PUBLIC_HEADER_LAYER = {"error": "base", "log": "base", "trace": "base", "version": "base", "export": "base",
                       "config": "config",
                       "config_running": "config", "config_training": "config", "config_zero": "config",
                       "communicator": "comm", "data": "data", "layer": "model", "models": "model",
                       "launch": "launch", "engine": "engine", "lockstep": "engine"}
TORCH_FREE = {"base", "config", "plan", "lr", "kernels", "optim", "monitor"}
BANNED_IN_HEADERS = ("torch/torch.h", "torch/all.h", "torch/nn.h", "torch/extension.h", "ATen/ATen.h",
                     "nlohmann/json.hpp")
# The only units that may include autograd's, c10d's or torch::nn's own headers: 5-30 s each to compile.
HEAVY_UNITS = {"src/comm/gloo/gloo_communicator.cc", "src/model/module_layer.cc", "src/model/ops/attention.cc",
               "src/model/ops/autocast.h", "src/model/ops/embedding.cc",
               "src/model/ops/layer_norm.cc", "src/model/ops/linear.cc", "src/model/ops/linear_cross_entropy.cc",
               "src/model/ops/node.h", "src/zero/gradient_hooks.cc",
               "src/zero/operator_observer.cc", "src/zero/unit_calls.cc"}
BANNED_NAMES = {"utils", "util", "helper", "helpers", "manager", "misc", "impl"}
LONGEST = {".h": 300, ".cc": 650}
INCLUDE = re.compile(r'^\s*#include\s+["<]([^">]+)[">]')


def layer_of(path: str) -> str | None:
    """The folder that a file, or an include's path, belongs to; None for what is not ours."""
    parts = pathlib.PurePosixPath(path).parts
    if parts[0] in ("lockstep", "include"):
        return PUBLIC_HEADER_LAYER.get(pathlib.PurePosixPath(path).stem, "unknown")
    if parts[0] == "src":
        parts = parts[1:]
    if parts[0] in ("cli", "bench"):
        return "engine"  # May include everything.
    return parts[0] if len(parts) > 1 and parts[0] in LAYERS else None


def check_text(name: str, text: str) -> list[str]:
    path = pathlib.PurePosixPath(name)
    problems = []
    if path.stem in BANNED_NAMES:
        problems.append(f"{name}: name it after what it does, not '{path.stem}'")
    # Tests feed other bytes on purpose.
    if not text.isascii() and path.parts[0] != "tests":
        problems.append(f"{name}: not ASCII")
    if path.suffix == ".h" and not path.stem.endswith("-inl") and "#pragma once" not in text:
        problems.append(f"{name}: no #pragma once")
    lines = text.count("\n")
    if lines > LONGEST[path.suffix]:
        problems.append(f"{name}: {lines} lines, over {LONGEST[path.suffix]}: split it")
    return problems


def check_include(name: str, included: str) -> str | None:
    layer, other = layer_of(name), layer_of(included)
    is_header = name.endswith(".h")
    if other == "unknown":
        return f"tell PUBLIC_HEADER_LAYER in tools/check_layers.py which folder {included} belongs to"
    if other and LAYERS.index(other) > LAYERS.index(layer):
        return f"{layer} may not include {included}: {other} stands below it"
    if is_header and included in BANNED_IN_HEADERS and name not in HEAVY_UNITS:
        return f"{included} in a header costs every unit seconds; forward-declare, or include what is used"
    if included.startswith("torch/") and not included.startswith("torch/headeronly") and name not in HEAVY_UNITS:
        return f"{included}: only the units listed in HEAVY_UNITS of tools/check_layers.py include it"
    if layer in TORCH_FREE and re.match(r"(torch|ATen|c10)/", included):
        return f"{included}: {layer} is free of LibTorch"
    return None


def untested(sources: list[str], tests: dict[str, str]) -> list[str]:
    """Sources that no test is named after and whose header no test includes."""
    included = {match for text in tests.values() for match in re.findall(r'#include\s+"([^"]+)"', text)}
    named = {pathlib.PurePosixPath(test).name for test in tests}
    missing = []
    for source in sources:
        path = pathlib.PurePosixPath(source)
        header = path.relative_to("src").with_suffix(".h").as_posix()
        if f"{path.stem}_test.cc" not in named and header not in included:
            missing.append(source)
    return missing


def read(folders: tuple[str, ...]) -> dict[str, str]:
    paths = sorted(p for folder in folders for p in (ROOT / folder).rglob("*") if p.suffix in (".h", ".cc"))
    return {p.relative_to(ROOT).as_posix(): p.read_text() for p in paths}


def main() -> int:
    sources, tests = read(("include", "src", "cli")), read(("tests", "bench", "examples"))
    problems = [problem for name, text in {**sources, **tests}.items() for problem in check_text(name, text)]
    for name, text in sources.items():
        if layer_of(name) in (None, "unknown"):
            problems.append(f"{name}: in none of the folders that tools/check_layers.py knows")
            continue
        for number, line in enumerate(text.splitlines(), 1):
            if match := INCLUDE.match(line):
                if problem := check_include(name, match.group(1)):
                    problems.append(f"{name}:{number}: {problem}")
    for problem in problems:
        print(problem)
    without = untested([name for name in sources if name.startswith("src/") and name.endswith(".cc")], tests)
    if "--tests" in sys.argv[1:]:
        print(*without, sep="\n")
    print(f"layers: {len(sources) + len(tests)} files, {len(problems)} problems; "
          f"{len(without)} units are tested through others only")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
