#!/usr/bin/env bash
# Fuzzes what the library reads from files that others write: fuzz.sh [SECONDS], shared between the fuzzers. What is found stays in build/fuzz.
# The corpus in the tree is the start; new inputs go to build/fuzz/corpus. `fuzz.sh merge` takes those that reach new code into the tree.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-60}
subjects=(config ledger)
build=build/vcuda-fuzz
cmake -S vcuda/lib -B $build -DCMAKE_C_COMPILER=clang -DCMAKE_BUILD_TYPE=RelWithDebInfo -DVCUDA_FUZZ=ON \
  -DVCUDA_SANITIZE=fuzzer-no-link,address,undefined
cmake --build $build -j"$(nproc)" --target "${subjects[@]/#/fuzz_}"
for subject in "${subjects[@]}"; do
  found=build/fuzz/corpus/$subject corpus=vcuda/lib/fuzz/corpus/$subject
  mkdir -p "$found"
  if [ "$seconds" = merge ]; then
    $build/fuzz/fuzz_"$subject" -merge=1 -max_len=8192 "$corpus" "$found"
    continue
  fi
  # -timeout is real seconds for one input, which takes well below a millisecond: an endless loop ends the run.
  nice $build/fuzz/fuzz_"$subject" -max_total_time=$((seconds / ${#subjects[@]})) -timeout=25 -max_len=8192 -print_final_stats=1 \
    -artifact_prefix="build/fuzz/$subject-" "$found" "$corpus"
done
