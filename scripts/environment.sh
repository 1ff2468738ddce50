#!/usr/bin/env bash
# Builds the notebook environment from deploy/notebook/uv.lock into TARGET. Repeating it costs nothing while nothing changed.
# TARGET is a link to a folder named after what it was built from, so that it changes in one step and running notebooks keep theirs.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/say.sh
[ $# -eq 1 ] || fail "Say where the environment shall be: scripts/environment.sh TARGET"
target=$(realpath -ms "$1")
uv=$(command -v uv || echo build/uv/bin/uv)
[ -x "$uv" ] || fail "uv is missing. Run: make setup"
umask 022 # notebooks run under accounts of their own and must be able to read it

# As root only the system's Python lies where every account can reach it.
python=/usr/bin/python3
[ "$(id -u)" -eq 0 ] && [ -x $python ] || python=$(command -v python3.12 || command -v python3.11 || command -v python3)
made_from=$({ "$python" -V; fingerprint deploy/notebook/uv.lock deploy/notebook/pyproject.toml deploy/notebook/src; } | sha256sum | cut -c1-12)
folder=$target.$made_from

if [ ! -e "$folder/complete" ]; then
  mkdir -p "$(dirname "$target")"
  rm -rf "$folder"
  # Copies, not links into uv's cache: the cache may lie in a closed home. Bytecode now, since later nobody may write here.
  UV_PROJECT_ENVIRONMENT=$folder "$uv" sync --project deploy/notebook --frozen --no-default-groups --no-editable \
    --python "$python" --link-mode copy --compile-bytecode
  touch "$folder/complete"
fi
if [ "$(readlink "$target" || true)" != "$(basename "$folder")" ]; then
  ln -sfn "$(basename "$folder")" "$target.new"
  mv -T "$target.new" "$target"
fi
# Notebooks that started before a change still run from the folder of their time; no time limit reaches further back than this.
find "$(dirname "$target")" -maxdepth 1 -name "$(basename "$target").????????????" ! -name "$(basename "$folder")" -mtime +29 -exec rm -rf {} +
