# shellcheck shell=bash
# What the tests of the command share. Each test file defines functions and ends with run_case "$@".
#
#   FILE.sh COMMAND LIBRARY FIXTURES SOURCE CASE
#
# COMMAND and LIBRARY are copied into a folder that any user may read, as an installation has them:
# bin/rdmalloc and lib/librdmalloc.so.0. Exit status 0 kept, 1 broken, 77 skipped with its reason.
set -u
unset LD_PRELOAD
for variable in $(env | sed -n 's/^\(RDMALLOC_[A-Z_]*\)=.*/\1/p'); do unset "$variable"; done

skip() {
  echo "SKIPPED: $1"
  exit 77
}

fail() {
  echo "BROKEN: $1"
  [ ! -s "$work/out" ] || sed 's/^/  out: /' "$work/out"
  [ ! -s "$work/err" ] || sed 's/^/  err: /' "$work/err"
  exit 1
}

need_root() { [ "$(id -u)" = 0 ] || skip "only root can $1"; }

# Runs what follows; leaves $status, $work/out and $work/err.
try() {
  status=0
  "$@" >"$work/out" 2>"$work/err" || status=$?
}

# The same as an ordinary user without rights.
try_as_user() {
  command -v setpriv >/dev/null || skip "no setpriv"
  try setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps -all "$@"
}

promise_status() { [ "$status" = "$1" ] || fail "status $status, promised was $1"; }
promise_said() { grep -qF -- "$1" "$work/err" || fail "standard error does not say: $1"; }
promise_printed() { grep -qF -- "$1" "$work/out" || fail "standard output does not say: $1"; }

# run refused, said why, and did not start the program.
promise_refused() {
  promise_status 2
  promise_said "$1"
  [ "$(wc -l <"$work/err")" = 1 ] || fail "more than one line on standard error"
  ! grep -q started "$work/out" || fail "the program was started"
}

# python EXPRESSION over `report`, the JSON object in a file, must be true.
promise_json() {
  command -v python3 >/dev/null || skip "no python3 to read JSON with"
  python3 -c '
import json, sys
report = json.load(open(sys.argv[1]))
sys.exit(0 if eval(sys.argv[2]) else 1)' "$1" "$2" || fail "not so of $1: $2"
}

run_case() {
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  chmod 755 "$work"
  mkdir "$work/bin" "$work/lib"
  cp "$1" "$work/bin/rdmalloc"
  cp -L "$2" "$work/lib/librdmalloc.so.0"
  fixtures=$3
  source_folder=$4
  cp "$fixtures/cli_witness" "$work/witness"
  rdmalloc=$work/bin/rdmalloc
  witness=$work/witness
  cd "$work" || exit 1
  "$5"
}
