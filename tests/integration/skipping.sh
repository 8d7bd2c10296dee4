#!/bin/sh
# A test program may skip only for what the machine lacks: not for a promise broken earlier, nor for
# what the library refuses. And a control must fail for the intended reason.
#
#   skipping.sh PROGRAM LIBRARY
set -u
failed=0
ends() {
  status=0
  output=$(env ${3:+LD_PRELOAD=$3} "$program" "$2") || status=$?
  [ "$status" = "$1" ] ||
    { echo "BROKEN: $2 ends with $status${3:+ under the library}, not $1: $output"; failed=1; }
}
program=$1
ends 77 absent ""
ends 77 absent "$2"
ends 1 broken ""
ends 1 broken "$2"
ends 77 refused ""
ends 1 refused "$2"
ends 77 unsupported "$2"
ends 1 failed "$2"

# A control that fails for another reason proves nothing.
controls() {
  status=0
  output=$(sh "$(dirname "$0")/case.sh" --expect 1 --says "$2" -- "$program" broken) || status=$?
  [ "$status" = "$1" ] || { echo "BROKEN: a control of '$2' ended with $status: $output"; failed=1; }
}
controls 0 "^a byte is stale$"
controls 1 "^a page has moved$"
exit $failed
