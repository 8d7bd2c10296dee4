#!/bin/sh
# Each process has its own report: a forked child that exits later does not overwrite its parent's.
# If the name has %p, the child has a report too.
#
#   late_child.sh PROGRAM LIBRARY
set -eu
. "$(dirname "$0")/../support/verdict.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# cat ends when the last of the two processes has ended.
run() { { env RDMALLOC_REPORT="$1" LD_PRELOAD="$3" "$2"; echo "ended with $?"; } | cat >"$work/end"; }
is_of_child() { grep -Eq '"forked": *1' "$1"; }

run "$work/report.json" "$1" "$2"
grep -q "ended with 0" "$work/end" || fail "the program $(cat "$work/end")"
[ -s "$work/report.json" ] || fail "there is no report"
grep -q '"forked"' "$work/report.json" || fail "the report does not say whose it is"
! is_of_child "$work/report.json" || fail "the child wrote over its parent's report"

run "$work/each.%p.json" "$1" "$2"
of_child=0
of_parent=0
for report in "$work"/each.*.json; do
  if is_of_child "$report"; then of_child=$((of_child + 1)); else of_parent=$((of_parent + 1)); fi
done
[ "$of_parent $of_child" = "1 1" ] || fail "with %p: $of_parent of the parent, $of_child of the child"
