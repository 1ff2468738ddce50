#!/bin/sh
# Fetches cuda.h and nvml.h from NVIDIA's public wheels into DIR (default build/headers). Does nothing when they are there.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
dir=${1:-"$root/build/headers"}
stamp="$dir/.complete-12.9.79"
[ -f "$stamp" ] && exit 0

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/wheels.txt" <<'REQUIREMENTS'
nvidia-cuda-runtime-cu12==12.9.79 --hash=sha256:25bba2dfb01d48a9b59ca474a1ac43c6ebf7011f1b0b8cc44f54eb6ac48a96c3
nvidia-nvml-dev-cu12==12.9.79 --hash=sha256:8bb367913c62cb65be9ae386c58dbf573f1f9e2f01cae54abb87bf5f63c6069e
REQUIREMENTS

echo "fetching the CUDA 12.9 headers into $dir" >&2
if ! python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: \
  --platform manylinux2014_x86_64 --require-hashes -d "$work" -r "$work/wheels.txt"; then
  echo "fetch-headers: pip could not download the header wheels. Check the network or pip's index, then run this again." >&2
  exit 1
fi
python3 - "$work" "$dir" <<'PYTHON'
import pathlib, sys, zipfile

work, target = map(pathlib.Path, sys.argv[1:])
target.mkdir(parents=True, exist_ok=True)
for wheel in work.glob("*.whl"):
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if name.endswith(("/include/cuda.h", "/include/nvml.h", "/include/cudaTypedefs.h")):
                (target / pathlib.PurePath(name).name).write_bytes(archive.read(name))
PYTHON
for header in cuda.h nvml.h; do
  [ -f "$dir/$header" ] || { echo "fetch-headers: the wheels held no $header" >&2; exit 1; }
done
touch "$stamp"
