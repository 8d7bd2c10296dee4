# shellcheck shell=bash
# Shared by the tests of the command. Each test file defines functions and ends with run_case "$@".
#
#   FILE.sh COMMAND LIBRARY FIXTURES SOURCE CASE
#
# COMMAND and LIBRARY are copied into a folder that any user may read, laid out as an installation:
# bin/rdmalloc and lib/librdmalloc.so.0. Exit status: 0 kept, 1 broken, 77 skipped with a reason.
set -u
. "$(dirname "$0")/../../../support/verdict.sh"
unset LD_PRELOAD
for variable in $(env | sed -n 's/^\(RDMALLOC_[A-Z_]*\)=.*/\1/p'); do unset "$variable"; done

# Fails, showing the last command's output.
fail() {
  echo "FAILED: $1"
  [ ! -s "$work/out" ] || sed 's/^/  out: /' "$work/out"
  [ ! -s "$work/err" ] || sed 's/^/  err: /' "$work/err"
  exit 1
}

# Runs the arguments; leaves $status, $work/out and $work/err.
try() {
  status=0
  "$@" >"$work/out" 2>"$work/err" || status=$?
}

# The same as an unprivileged user.
try_as_user() {
  need setpriv
  try $as_user "$@"
}

promise_status() { [ "$status" = "$1" ] || fail "status $status, promised was $1"; }
promise_said() { grep -qF -- "$1" "$work/err" || fail "standard error does not say: $1"; }
promise_printed() { grep -qF -- "$1" "$work/out" || fail "standard output does not say: $1"; }

# run refused, gave the reason, and did not start the program.
promise_refused() {
  promise_status 2
  promise_said "$1"
  [ "$(wc -l <"$work/err")" = 1 ] || fail "more than one line on standard error"
  ! grep -q started "$work/out" || fail "the program was started"
}

# The python EXPRESSION over `report`, the JSON object in a file, must be true.
promise_json() {
  need python3
  python3 -c '
import json, re, sys
report = json.load(open(sys.argv[1]))
if eval(sys.argv[2]): sys.exit(0)
for key in re.findall(r"report\[.(\w+).\]", sys.argv[2]): print("in the report:", key, report.get(key))
sys.exit(1)' "$1" "$2" || fail "not so of $1: $2"
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
