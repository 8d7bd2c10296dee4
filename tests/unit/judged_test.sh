#!/bin/sh
# What tests/judged.sh accepts as a skip, and what tests/summary.py tells.
#
#   judged_test.sh TESTS_FOLDER PYTHON
set -u
. "$(dirname "$0")/../support/verdict.sh"
folder=$1
python=$2
unset RDMALLOC_TESTS_REQUIRE
failed=0

# ends STATUS "what for" REQUIRED LABELS "script"
ends() {
  status=0
  output=$(RDMALLOC_TESTS_REQUIRE=$3 sh "$folder/judged.sh" "$4" 100 sh -c "$5" 2>&1) || status=$?
  [ "$status" = "$1" ] || { echo "BROKEN: $2: ended with $status, not $1: $output"; failed=1; }
}
says() {
  case $output in
    *"$1"*) ;;
    *) echo "BROKEN: it does not say '$1', but: $output"; failed=1 ;;
  esac
}

ends 0 "what passes" "" unit "exit 0"
ends 3 "what fails" "" unit "exit 3"
ends 77 "a skip with a reason" "" unit "echo 'SKIPPED: no tool'; exit 77"
says "no tool"
ends 1 "a skip without a reason" "" unit "echo 'all is well'; exit 77"
says "no reason"
ends 1 "a skip after a failure" "" unit "echo 'BROKEN: a byte'; echo 'SKIPPED: no tool'; exit 77"
says "failed before it was skipped"
ends 1 "a required label" mpi,guest guest,long "echo 'SKIPPED: no tool'; exit 77"
says "asks for guest: no tool"
ends 77 "another label" mpi,guest unit "echo 'SKIPPED: no tool'; exit 77"
ends 1 "a required word" io_uring unit "echo 'SKIPPED: no io_uring here'; exit 77"
ends 77 "a part of a word" io_uring unit "echo 'SKIPPED: no io_urings here'; exit 77"
ends 0 "a part that is skipped" io_uring unit "echo 'SKIPPED: no tool'; exit 0"
ends 1 "a required part" userfaultfd unit "echo 'SKIPPED: no userfaultfd here'; exit 0"
ends 1 "every kind" all unit "echo 'SKIPPED: no tool'; exit 77"
ends 1 "a kind that is none" io-uring unit "exit 0"
says "'io-uring', which is none of"
if [ "$(id -u)" = 0 ]; then
  ends 0 "what root may do" all unit,root,memlock,memlock_8M "exit 0"
  small="prlimit --memlock=65536:65536"
  # ends_for_user STATUS LABELS LIMIT
  ends_for_user() {
    status=0
    output=$($3 $as_user sh "$folder/judged.sh" "$2" 100 true 2>&1) || status=$?
    [ "$status" = "$1" ] || { echo "BROKEN: $2 of a user: ended with $status, not $1: $output"; failed=1; }
  }
  ends_for_user 77 unit,root ""
  says "only root"
  ends_for_user 77 unit,memlock "$small"
  says "hundreds of MiB, and the memlock limit is 64 KiB"
  ends_for_user 77 unit,memlock_8M "$small"
  says "up to 8 MiB, and the memlock limit is 64 KiB"
  ends_for_user 0 unit,memlock_8M "prlimit --memlock=8388608:8388608"
  ends_for_user 0 unit "$small"
else
  echo "SKIPPED: what an ordinary user may not do is tried by root"
fi
# The library warns about unknown options.
ends 0 "what the test sees of it" all unit 'test -z "${RDMALLOC_TESTS_REQUIRE+x}"'

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# The stacks of a hanging test are shown before ctest ends it, and a test that does not hang is not
# delayed.
: > "$work/hangs"
sh "$folder/judged.sh" unit 3 sh -c 'until [ -e "$1" ]; do sleep 0.1; done' sh "$work/shown" \
  > "$work/hangs" 2>&1 &
tries=0
until grep -qE '^#0|no stack' "$work/hangs" || [ $tries = 300 ]; do
  sleep 0.1
  tries=$((tries + 1))
done
: > "$work/shown"
wait
output=$(cat "$work/hangs")
says "it did not end in 3 s"
says ": sh -c until"
says "thread "
begun=$(date +%s)
output=$(sh "$folder/judged.sh" unit 100 true 2>&1)
[ $(($(date +%s) - begun)) -lt 50 ] || { echo "BROKEN: it waits though the test has ended"; failed=1; }
[ -z "$output" ] || { echo "BROKEN: it says of a test that has ended: $output"; failed=1; }

cat > "$work/tests.xml" << 'END'
<testsuite>
  <testcase name="a" status="run"><system-out>fine</system-out></testcase>
  <testcase name="b" status="notrun"><skipped message=""/><system-out>x
SKIPPED: no tool
</system-out></testcase>
  <testcase name="c" status="notrun"><skipped message=""/><system-out>SKIPPED: no tool</system-out></testcase>
  <testcase name="d" status="run"><system-out>SKIPPED: no ring</system-out></testcase>
  <testcase name="e" status="notrun"><skipped message=""/><system-out>SKIPPED: not built: the tests with x: no libx-dev</system-out></testcase>
  <testcase name="f" status="fail"><failure message=""/><system-out>FAILED: it is broken</system-out></testcase>
</testsuite>
END
output=$("$python" "$folder/summary.py" "$work/tests.xml" 2>&1)
says "6 tests: 2 skipped, 1 skipped in part, 1 suites not built"
says "  2 skipped: no tool"
says "  1 skipped in part: no ring"
says "  not built: the tests with x: no libx-dev"
says "failed: f"
says "  FAILED: it is broken"
exit $failed
