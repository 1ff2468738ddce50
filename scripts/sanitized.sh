#!/usr/bin/env bash
# Builds library and simulated driver with sanitizers: sanitized.sh address (and undefined behaviour; build/vcuda-asan) or
# sanitized.sh thread (by clang, which follows fences where gcc gives up; build/vcuda-tsan).
set -euo pipefail
case ${1:-address} in
address) build=build/vcuda-asan options=("-DVCUDA_SANITIZE=address,undefined") ;;
thread) build=build/vcuda-tsan options=(-DVCUDA_SANITIZE=thread -DCMAKE_C_COMPILER=clang) ;;
*) echo "sanitized.sh knows address and thread, not '$1'" >&2; exit 2 ;;
esac
cmake -S vcuda -B "$build" -DCMAKE_BUILD_TYPE=Debug "${options[@]}"
cmake --build "$build" -j"$(nproc)"
