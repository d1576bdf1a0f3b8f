"""Holds the source tree to its structure: who may include whom, what headers may pull in, names, lengths.

usage: check_layers.py            exits 1 and names each violation
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# In dependency order: a folder includes only from itself and from folders before it.
LAYERS = ["base", "config", "plan", "lr", "kernels", "comm", "tensor", "data", "model", "optim", "precision", "zero",
          "checkpoint", "monitor", "launch", "engine"]
PUBLIC_HEADER_LAYER = {"error": "base", "log": "base", "version": "base", "config": "config",
                       "config_sections": "config", "communicator": "comm", "data": "data", "layer": "model",
                       "models": "model", "launch": "launch", "engine": "engine", "lockstep": "engine"}
BANNED_IN_HEADERS = ("torch/torch.h", "torch/all.h", "torch/nn.h", "torch/extension.h", "ATen/ATen.h")
TORCH_FREE = {"base", "config", "plan", "lr", "kernels", "optim", "precision", "monitor"}
# The only units that may include autograd's, c10d's or torch::nn's own headers: 5-30 s each to compile.
HEAVY_INCLUDE = re.compile(r"^torch/")
HEAVY_UNITS = {"src/comm/gloo/gloo_communicator.cc", "src/model/module_layer.cc", "src/model/ops/attention.cc",
               "src/model/ops/layer_norm.cc", "src/model/ops/linear.cc", "src/model/ops/linear_cross_entropy.cc",
               "src/zero/gradient_hooks.cc"}
BANNED_NAMES = ("utils", "util", "helper", "helpers", "manager", "misc", "impl")
INCLUDE = re.compile(r'^\s*#include\s+["<]([^">]+)[">]')


def layer_of_include(path: str) -> str | None:
    if path.startswith("lockstep/"):
        return PUBLIC_HEADER_LAYER.get(pathlib.PurePosixPath(path).stem, "unknown public header")
    head = path.split("/", 1)[0]
    return head if "/" in path and head in LAYERS else None


def main() -> int:
    problems = []
    sources = sorted(p for folder in ("src", "include", "cli") for p in (ROOT / folder).rglob("*")
                     if p.suffix in (".h", ".cc"))
    for path in sources:
        name = path.relative_to(ROOT).as_posix()
        parts = path.relative_to(ROOT).parts
        if parts[0] == "src":
            layer = parts[1]
        elif parts[0] == "include":
            layer = PUBLIC_HEADER_LAYER.get(path.stem, "")
            if not layer:
                problems.append(f"{name}: tell PUBLIC_HEADER_LAYER in tools/check_layers.py which folder it belongs to")
                continue
        else:
            layer = "engine"
        text = path.read_text()
        lines = text.splitlines()
        if path.stem in BANNED_NAMES:
            problems.append(f"{name}: name it after what it does, not '{path.stem}'")
        if not text.isascii():
            problems.append(f"{name}: not ASCII")
        limit = 300 if path.suffix == ".h" else 650
        if len(lines) > limit and "config_sections" not in name:
            problems.append(f"{name}: {len(lines)} lines, over {limit}: split it")
        if path.suffix == ".h" and "#pragma once" not in text:
            problems.append(f"{name}: no #pragma once")
        for number, line in enumerate(lines, 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            included = match.group(1)
            other = layer_of_include(included)
            if other == "unknown public header":
                problems.append(f"{name}:{number}: unknown public header {included}")
            elif other and LAYERS.index(other) > LAYERS.index(layer):
                problems.append(f"{name}:{number}: {layer} may not include {included}: {other} stands above it")
            if path.suffix == ".h" and included in BANNED_IN_HEADERS:
                problems.append(f"{name}:{number}: {included} in a header costs every unit seconds; include what is used")
            if included.startswith("torch/") and not included.startswith("torch/headeronly") and name not in HEAVY_UNITS:
                problems.append(f"{name}:{number}: {included}: only the units listed in HEAVY_UNITS include it")
            if layer in TORCH_FREE and re.match(r"(torch|ATen|c10)/", included):
                problems.append(f"{name}:{number}: {layer} is free of LibTorch")
    for problem in problems:
        print(problem)
    print(f"layers: {len(sources)} files, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
