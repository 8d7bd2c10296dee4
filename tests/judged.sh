#!/bin/sh
# Runs a test, and lets nothing pass for a skip that is none. ctest runs every test by this.
#
#   judged.sh LABELS COMMAND ARGUMENTS...
#
# A skip is status 77 after a line "SKIPPED: REASON". A test that passes may have skipped a part: it
# prints such a line for it. RDMALLOC_TESTS_REQUIRE names kinds that may not be skipped, with commas
# between: a kind is a label of the test or a word of the reason, and `all` is every kind.
# README.md lists them.
#
# Exit status: the command's; 1 for a skip without a reason, for one of a kind that is required, and
# where a kind is required that is none.
set -u
labels=$1
shift
required=$(printf %s "${RDMALLOC_TESTS_REQUIRE:-}" | tr , ' ')
# The library would take it for an option that it does not know.
unset RDMALLOC_TESTS_REQUIRE

kinds="all cuda gpu guest io_uring libfabric memlock mpi real root ucx userfaultfd verbs"
for kind in $required; do
  case " $kinds " in
    *" $kind "*) ;;
    *) echo "FAILED: RDMALLOC_TESTS_REQUIRE has '$kind', which is none of: $kinds"; exit 1 ;;
  esac
done

work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
# Shown as it comes: a test that hangs is killed, and what it said until then is wanted.
{
  status=0
  "$@" 2>&1 || status=$?
  echo $status >"$work/status"
} | tee "$work/output"
status=$(cat "$work/status")
reasons=$(sed -n 's/^SKIPPED: *\(..*\)/\1/p' "$work/output")

case $status in
  0) [ -n "$reasons" ] || exit 0 ;;
  77) [ -n "$reasons" ] || { echo "FAILED: it was skipped and says no reason (SKIPPED: ...)"; exit 1; } ;;
  *) exit "$status" ;;
esac
for kind in $required; do
  if [ "$kind" = all ] || echo "$labels" | tr ',;' '\n\n' | grep -qxF -- "$kind" ||
    echo "$reasons" | grep -qwiF -- "$kind"; then
    echo "FAILED: it was skipped, and RDMALLOC_TESTS_REQUIRE asks for $kind: \
$(echo "$reasons" | head -n 1)"
    exit 1
  fi
done
exit "$status"
