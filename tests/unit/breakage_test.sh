#!/bin/sh
# One test, by its name, must pass as long as nothing is broken, and fail of one breakage.
#
#   breakage_test.sh PROGRAM BREAKAGE "name of the test" "what its output says of the check that fails"
set -u
program=$1
breakage=$2
test=$3
check=$4

broken() {
  echo "BROKEN: $1"
  exit 1
}

# Catch takes commas for a list, and a leading or trailing star for any text.
name=$(printf %s "$test" | sed 's/[,[]/\\&/g')
output=$(env -u RDM_BREAK timeout 60 "$program" "$name" 2>&1) ||
  broken "with nothing broken \"$test\" fails: $output"
case $output in
  *"All tests passed"*"in 1 test case"*) ;;
  *) broken "there is no one test \"$test\": $output" ;;
esac

status=0
output=$(RDM_BREAK=$breakage timeout 60 "$program" "$name" 2>&1) || status=$?
echo "$output"
case $output in
  *"broken on purpose: $breakage"*) ;;
  *) broken "\"$test\" does not come by the breakage" ;;
esac
[ $status -ne 0 ] || broken "\"$test\" passes with a library that is broken"
[ $status -ne 124 ] || broken "\"$test\" hangs, and should fail"
case $output in
  *"$check"*) ;;
  *) broken "\"$test\" fails, and not because of: $check" ;;
esac
echo "\"$test\" fails of it: $check"
