#!/bin/sh
# One test, given by name, must pass while nothing is broken, and fail with one breakage.
#
#   breakage_test.sh PROGRAM BREAKAGE "name of the test" "what its output says of the check that fails"
set -u
. "$(dirname "$0")/../support/verdict.sh"
program=$1
breakage=$2
test=$3
check=$4

# Catch treats commas as separators, and a leading or trailing star as a wildcard.
name=$(printf %s "$test" | sed 's/[,[]/\\&/g')
output=$(env -u RDM_BREAK timeout 60 "$program" "$name" 2>&1) ||
  fail "with nothing broken \"$test\" fails: $output"
case $output in
  *"All tests passed"*"in 1 test case"*) ;;
  *) fail "there is no one test \"$test\": $output" ;;
esac

status=0
output=$(RDM_BREAK=$breakage timeout 60 "$program" "$name" 2>&1) || status=$?
echo "$output"
case $output in
  *"broken on purpose: $breakage"*) ;;
  *) fail "\"$test\" does not come by the breakage" ;;
esac
[ $status -ne 0 ] || fail "\"$test\" passes with a library that is broken"
[ $status -ne 124 ] || fail "\"$test\" hangs, and should fail"
case $output in
  *"$check"*) ;;
  *) fail "\"$test\" fails, and not because of: $check" ;;
esac
echo "\"$test\" fails of it: $check"
