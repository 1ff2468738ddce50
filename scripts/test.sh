#!/usr/bin/env bash
# Runs the checks and tests. `all` is what the continuous integration runs; the other words are parts of it.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/say.sh
PATH=$PWD/build/uv/bin:$PWD/build/go/bin:$PATH # where scripts/setup.sh puts uv and Go on a machine without them
bin=.venv/bin
[ -x $bin/python ] || fail "There is no Python environment yet. Run: make setup-test"
export STEP_TAIL=120
pytest=(nice "$bin/python" -m pytest -q)
failed=()

check() { step "$@" || failed+=("$1"); }

# Before Python 3.12 asyncio.wait_for swallows a cancellation that comes while what it waits for has just come: the task never ends.
no_wait_for() { ! grep -rn 'asyncio\.wait_for(' apps portal vcuda/node; }
lint() {
  check "Style (ruff)" $bin/ruff check .
  check "Format (ruff)" $bin/ruff format --check .
  check "Layers (import-linter)" $bin/lint-imports
  check "Types (mypy)" $bin/mypy
  check "No lost cancellation (asyncio.timeout, not wait_for)" no_wait_for
  check "Templates (djlint)" $bin/djlint templates --check --lint
  check "Spelling (codespell)" $bin/codespell apps portal vcuda scripts docs templates static README.md CHANGELOG.md CONTRIBUTING.md
  check "Shell (shellcheck)" shellcheck -x -S warning scripts/*.sh .ci/run
  check "Migrations are complete" $bin/python manage.py makemigrations --check --dry-run
  check "Translations are complete" $bin/python scripts/check_messages.py
  check "Generated files are current" scripts/check_generated.sh
}

# The library's units, and what goes through all of it with many threads and processes.
threaded='^(lib\.(region|ledger|share|meter|shim\.(memory|processes))|sim/race)$'
c_tests() {
  check "vcuda: tests" ctest --test-dir build/vcuda --output-on-failure
  check "vcuda: build with sanitizers" scripts/sanitized.sh address
  check "vcuda: tests under address and undefined-behaviour sanitizers" ctest --test-dir build/vcuda-asan --output-on-failure
  check "vcuda: build with the thread sanitizer" scripts/sanitized.sh thread
  check "vcuda: tests under the thread sanitizer" ctest --test-dir build/vcuda-tsan --output-on-failure -R "$threaded"
  check "vcuda: fuzzing of config and ledger" scripts/fuzz.sh 60
}

unit() { check "Python tests on SQLite" "${pytest[@]}" tests/unit -n 2; }
javascript() { check "JavaScript tests" sh -c 'node --test tests/js/*.test.mjs'; }
services() { check "Python tests on PostgreSQL and Redis" scripts/with_services.sh "${pytest[@]}" tests/unit -n 2; }
parts() {
  check "Simulated driver under unmodified clients" "${pytest[@]}" vcuda/sim/tests/python
  check "Node agent" "${pytest[@]}" tests/agent
  check "Local driver" "${pytest[@]}" tests/contract tests/local
  check "Gateway" "${pytest[@]}" tests/gateway
  check "REST interface, live: its guide and its description" "${pytest[@]}" tests/api
}
kubernetes() {
  export TESSERA_CLUSTER_REQUIRED=1 # where no node can run, that is a failure here and no reason to skip
  check "Test cluster, images, manifests" "${pytest[@]}" tests/cluster
  check "Kubernetes driver: contract and faults" "${pytest[@]}" tests/kubernetes
  check "Notebooks as pods, in a real browser" "${pytest[@]}" tests/e2e_cluster
}
node() { TESSERA_CLUSTER_REQUIRED=1 check "Node agent on a real kubelet" "${pytest[@]}" tests/cluster_node; }
runtime() { check "CuPy and PyTorch on the simulated driver" "${pytest[@]}" tests/runtime; } # not in `all`: their wheels are 3 GB
e2e() { check "The whole product in a real browser" "${pytest[@]}" tests/e2e; }

case ${1:-all} in
all) lint; unit; javascript; c_tests; services; parts; e2e; kubernetes; node ;;
fast) lint; unit; javascript ;;
lint) lint ;;
c) c_tests ;;
unit) unit ;;
services) services ;;
parts) parts ;;
e2e) e2e ;;
runtime) runtime ;;
kubernetes) kubernetes ;;
node) node ;;
*) fail "test.sh knows all, fast, lint, c, unit, services, parts, e2e, runtime, kubernetes and node, not '$1'" ;;
esac

skipped=$(grep -hE '^SKIPPED' build/logs/*.log 2>/dev/null | sort -u || true)
[ -z "$skipped" ] || printf 'Skipped, with the reason:\n%s\n' "$skipped"
if [ ${#failed[@]} -gt 0 ]; then
  printf '%sFailed:%s\n' "$red" "$plain"
  printf '  %s\n' "${failed[@]}"
  exit 1
fi
printf '%sAll passed.%s\n' "$green" "$plain"
