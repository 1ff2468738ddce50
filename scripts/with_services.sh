#!/usr/bin/env bash
# Runs a command with a PostgreSQL and a Redis of its own, on free ports of the loopback, in a folder that goes with it.
set -euo pipefail
pg=$(ls -d /usr/lib/postgresql/*/bin | sort -V | tail -1)
work=$(mktemp -d)
free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
as_postgres=()
if [ "$(id -u)" -eq 0 ]; then # PostgreSQL refuses to run as root
  as_postgres=(setpriv --reuid=postgres --regid=postgres --init-groups env HOME="$work")
  chmod 755 "$work"
  install -d -o postgres "$work/pg"
fi
redis_pid=
stop() {
  [ -z "$redis_pid" ] || kill "$redis_pid" 2>/dev/null || true
  (cd / && "${as_postgres[@]}" "$pg/pg_ctl" -D "$work/pg" -m immediate stop >/dev/null 2>&1) || true
  rm -rf "$work"
}
trap stop EXIT

pg_port=$(free_port)
(cd / && "${as_postgres[@]}" "$pg/initdb" -D "$work/pg" -U tessera --auth=trust --no-sync >/dev/null)
# No fsync: the data lives as long as the tests. 200 parallel requests need as many connections.
(cd / && "${as_postgres[@]}" "$pg/pg_ctl" -D "$work/pg" -w -l "$work/pg/log" \
  -o "-h 127.0.0.1 -p $pg_port -k '$work/pg' -c fsync=off -c full_page_writes=off -c max_connections=300" start >/dev/null)
redis_port=$(free_port)
redis-server --port "$redis_port" --bind 127.0.0.1 --save '' --appendonly no --dir "$work" >"$work/redis.log" &
redis_pid=$!

export TESSERA_DATABASE_URL="postgresql://tessera@127.0.0.1:$pg_port/postgres"
export TESSERA_REDIS_URL="redis://127.0.0.1:$redis_port/0"
"$@"
