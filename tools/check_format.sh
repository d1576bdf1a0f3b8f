#!/usr/bin/env bash
# Fails, naming the files, where clang-format would change something.
set -euo pipefail
cd "$(dirname "$0")/.."
command -v clang-format >/dev/null || { echo "lint: clang-format is missing: apt-get install clang-format" >&2; exit 1; }
git ls-files '*.h' '*.cc' | xargs clang-format --dry-run --Werror
