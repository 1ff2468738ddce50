#!/usr/bin/env bash
# Files that are made from others must be what making them anew gives.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
status=0
same() { # FILE FRESH COMMAND
  diff -u "$1" "$2" >"$work/diff" || { echo "$1 is stale. Run: $3"; head -40 "$work/diff"; status=1; }
}
uv=$(command -v uv || echo build/uv/bin/uv)
"$uv" lock --check -q || { echo "uv.lock does not fit pyproject.toml. Run: make lock"; status=1; }
"$uv" export --frozen --no-default-groups --all-extras --no-emit-project -q --no-header -o "$work/requirements.txt" >/dev/null
same requirements.txt "$work/requirements.txt" "make lock"
.venv/bin/python manage.py spectacular --file "$work/openapi.yaml" --validate
same docs/openapi.yaml "$work/openapi.yaml" "make openapi"
nvml=vcuda/sim/src/nvml
.venv/bin/python $nvml/list_refused.py build/headers >"$work/refused.def"
same $nvml/refused.def "$work/refused.def" "python $nvml/list_refused.py build/headers > $nvml/refused.def"
exit $status
