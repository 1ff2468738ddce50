#!/usr/bin/env bash
# Measures, one figure per line of build/bench.jsonl (fields: docs/benchmarks.md). With a name: only the figures whose name begins so.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/say.sh
PATH=$PWD/build/uv/bin:$PATH # where scripts/setup.sh puts uv on a machine without one
name=${1:-}
out=$PWD/build/bench.jsonl
mkdir -p build
[ -n "$name" ] || : >"$out"
failed=0
run() { # PREFIX OF THE FIGURES, COMMAND...
  local prefix=$1
  shift
  case $prefix in "$name"*) ;; *) case $name in "$prefix"*) ;; *) return 0 ;; esac ;; esac
  printf '%s» %s%s\n' "$bold" "$prefix" "$plain"
  "$@" --out "$out" || failed=1
}
run vcuda .venv/bin/python -m vcuda.bench
run gateway .venv/bin/python -m tests.bench.gateway
run start .venv/bin/python -m tests.bench.start
run bypass .venv/bin/python -m tests.bench.bypass
run quota .venv/bin/python -m tests.bench.quota
run quota scripts/with_services.sh .venv/bin/python -m tests.bench.quota
# A cluster of its own, not the one that somebody may be looking at.
run kubernetes env TESSERA_CLUSTER=bench .venv/bin/python -m tests.bench.kubernetes ${name:+"$name"}
.venv/bin/python scripts/bench_docs.py --print
exit $failed
