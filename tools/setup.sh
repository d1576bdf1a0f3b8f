#!/usr/bin/env bash
# Brings what a build needs: Debian's packages, and LibTorch into .deps/ inside the checkout.
# Idempotent; a second run only looks.  With LOCKSTEP_TORCH_DIR set, that LibTorch is used and none is fetched.
set -euo pipefail
cd "$(dirname "$0")/.."

packages=(
  g++ cmake ninja-build lld pkg-config ca-certificates python3 python3-pip
  nlohmann-json3-dev libcli11-dev libfmt-dev
  libxxhash-dev libhwy-dev libgloo-dev libgtest-dev libgmock-dev libbenchmark-dev
  "$@" # further packages the caller needs, such as the demo's text
)
torch_version=2.11.0
wheels=("torch==$torch_version" 'nvidia-cuda-runtime==13.0.*' 'nvidia-cuda-cupti==13.0.*')
# The wheel's Python version does not matter to C++; a fixed one makes the download the same everywhere.
wheel_python=3.12

missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
done
if ((${#missing[@]})); then
  if [[ $(id -u) != 0 ]]; then
    echo "setup: ${#missing[@]} Debian packages are missing; install them, then run this again:" >&2
    echo "  sudo apt-get install -y --no-install-recommends ${missing[*]}" >&2
    exit 1
  fi
  echo "setup: installing ${missing[*]}"
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq
  apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi

if [[ -n ${LOCKSTEP_TORCH_DIR:-} ]]; then
  echo "setup: using LibTorch in $LOCKSTEP_TORCH_DIR"
  exit 0
fi

complete=.deps/torch-$torch_version.complete
if [[ ! -e $complete ]]; then
  echo "setup: fetching LibTorch $torch_version (about 1 GB, once)"
  rm -rf .deps/partial
  mkdir -p .deps/partial/wheels
  platforms=()
  for glibc in 28 27 26 25 24 17; do platforms+=(--platform "manylinux_2_${glibc}_x86_64"); done
  python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: \
    --python-version "$wheel_python" "${platforms[@]}" --platform manylinux2014_x86_64 \
    --dest .deps/partial/wheels "${wheels[@]}"
  python3 tools/unpack_torch.py .deps/partial/wheels .deps/partial
  rm -rf .deps/partial/wheels .deps/torch .deps/nvidia
  mv .deps/partial/torch .deps/torch
  mv .deps/partial/nvidia .deps/nvidia
  rmdir .deps/partial
  touch "$complete"
fi
