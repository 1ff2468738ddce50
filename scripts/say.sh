# shellcheck shell=bash
# Sourced by the other scripts: progress that a person can follow, errors that say what to do.
if [ -t 1 ]; then bold=$'\e[1m'; dim=$'\e[2m'; red=$'\e[31m'; green=$'\e[32m'; plain=$'\e[0m'; else bold='' dim='' red='' green='' plain=''; fi

fail() { # what happened, why, what to do
  printf '%s%s%s\n' "$red" "$*" "$plain" >&2
  exit 1
}

# step TITLE COMMAND...: runs it with its output in a log file, shows the title and the time; on failure the end of the log.
step() {
  local title=$1 log began status=0
  shift
  mkdir -p build/logs
  log=build/logs/$(tr -cs 'a-zA-Z0-9\n' '-' <<<"$title" | sed 's/-*$//').log
  began=$(date +%s)
  printf '%s…%s %s' "$bold" "$plain" "$title"
  "$@" >"$log" 2>&1 </dev/null || status=$?
  local took=$(($(date +%s) - began))
  if [ "$status" -ne 0 ]; then
    printf '\r%s✗%s %s %s(%s s)%s\n' "$red" "$plain" "$title" "$dim" "$took" "$plain"
    tail -n "${STEP_TAIL:-40}" "$log" >&2
    printf '%sThe whole output is in %s%s\n' "$red" "$log" "$plain" >&2
    return "$status"
  fi
  printf '\r%s✓%s %s %s(%s s)%s\n' "$green" "$plain" "$title" "$dim" "$took" "$plain"
}

# fresh STAMP FILES...: true when STAMP was made from exactly these files as they are now.
fresh() {
  local stamp=$1
  shift
  [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$(fingerprint "$@")" ]
}
fingerprint() { find "$@" -type f -print0 2>/dev/null | sort -z | xargs -0 sha256sum | sha256sum | cut -d' ' -f1; }
mark() {
  local stamp=$1
  shift
  mkdir -p "$(dirname "$stamp")"
  fingerprint "$@" >"$stamp"
}
