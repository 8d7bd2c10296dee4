#!/bin/sh
# Which files of /proc and /sys a program opens under the library: start-up is to read none before
# it is needed.
#
#   files_of_proc.sh [--expect-some] LIBRARY PROGRAM ARGS...
#
# Exit status: 0 there were none (with --expect-some: some), 1 otherwise, 77 skipped.
set -eu
. "$(dirname "$0")/../support/verdict.sh"
expected=none
[ "$1" != --expect-some ] || { expected=some; shift; }
library=$1
shift
need strace
strace -o /dev/null true || skip "strace cannot trace here"
trace=$(mktemp)
trap 'rm -f "$trace"' EXIT
strace -f -qq -e trace=open,openat,readlink,readlinkat -E LD_PRELOAD="$library" -o "$trace" "$@" ||
  fail "the program, or strace, ended with $?"
grep -q "$library" "$trace" || fail "the library was not loaded"
opened=$(sed -n 's|.*"\(/proc/[^"]*\)".*|\1|p; s|.*"\(/sys/[^"]*\)".*|\1|p' "$trace" | sort | uniq -c)
printf '%s\n' "${opened:-none}"
found=none
[ -z "$opened" ] || found=some
[ $found = $expected ] || fail "$found, where $expected were expected"
