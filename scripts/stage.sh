# Functions for the set-up scripts, which read this file with `.`. A finished stage leaves a stamp under
# .venv with a hash of its inputs; it runs again only when that hash changes.

stamps=.venv/.setup

say() { printf '%s\n' "$*" >&2; }

fail() {
  say "$*"
  exit 2
}

# hash_of FILE_OR_FOLDER...: print one hash of the names and contents of these files
hash_of() {
  {
    find "$@" -type f ! -path '*/__pycache__/*' | LC_ALL=C sort
    find "$@" -type f ! -path '*/__pycache__/*' | LC_ALL=C sort | git hash-object --no-filters --stdin-paths
  } | git hash-object --stdin
}

# is_done NAME KEY: whether the stage NAME has finished for the same KEY
is_done() {
  [ -f "$stamps/$1" ] && [ "$(cat "$stamps/$1")" = "$2" ]
}

# mark_done NAME KEY: write the stamp
mark_done() {
  mkdir -p "$stamps"
  printf '%s\n' "$2" >"$stamps/$1.part"
  mv "$stamps/$1.part" "$stamps/$1"
}

# stage NAME KEY COMMAND...: run COMMAND, unless the stage NAME has finished for the same KEY
stage() {
  stage_name=$1
  stage_key=$2
  shift 2
  if is_done "$stage_name" "$stage_key"; then return 0; fi
  rm -f "$stamps/$stage_name"
  say "set-up: $stage_name"
  "$@"
  mark_done "$stage_name" "$stage_key"
}
