#!/usr/bin/env bash
# Builds library and simulated driver with the address and undefined-behaviour sanitizers into build/vcuda-asan.
set -euo pipefail
cmake -S vcuda -B build/vcuda-asan -DCMAKE_BUILD_TYPE=Debug -DVCUDA_SANITIZE=address,undefined
cmake --build build/vcuda-asan -j"$(nproc)"
