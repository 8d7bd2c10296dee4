#!/bin/sh
# Runs a test, and lets nothing pass for a skip that is none. ctest runs every test by this.
#
#   judged.sh LABELS SECONDS COMMAND ARGUMENTS...
#
# Shortly before SECONDS have passed, when ctest ends the test, it prints what each of the test's
# processes does (stacks.sh).
#
# A test with the label root, memlock or memlock_8M is skipped where it may not do so. Another skip is
# status 77 after a line "SKIPPED: REASON". A test that passes may have skipped a part: it
# prints such a line for it. RDMALLOC_TESTS_REQUIRE names kinds that may not be skipped, with commas
# between: a kind is a label of the test or a word of the reason, and `all` is every kind.
# README.md lists them.
#
# Exit status: the command's; 1 for a skip without a reason, after a line "FAILED: ..." or "BROKEN: ...",
# or of a kind that is required, and where a kind is required that is none.
set -u
labels=$1
seconds=$2
shift 2
folder=${0%/*}
required=$(IFS=,; set -f; echo ${RDMALLOC_TESTS_REQUIRE:-})
# The library would take it for an option that it does not know.
unset RDMALLOC_TESTS_REQUIRE

kinds="all cuda gpu guest io_uring libfabric memlock mpi real root ucx userfaultfd verbs"
for kind in $required; do
  case " $kinds " in
    *" $kind "*) ;;
    *) echo "FAILED: RDMALLOC_TESTS_REQUIRE has '$kind', which is none of: $kinds"; exit 1 ;;
  esac
done

# What a label says that a test needs. Without a process of its own: it is asked at each test.
has_label() {
  case ",$labels," in
    *[,\;]"$1"[,\;]*) true ;;
    *) false ;;
  esac
}
# may_lock MIB|all
may_lock() {
  limit=$(ulimit -l)
  [ "$limit" = unlimited ] || { [ "$1" != all ] && [ "$limit" -ge $(($1 * 1024)) ]; } ||
    [ $((0x$(sed -n 's/^CapEff:[[:space:]]*//p' /proc/self/status) & 1 << 14)) != 0 ]  # CAP_IPC_LOCK
}
lacks() {
  if has_label root && [ "$(id -u)" != 0 ]; then
    echo "only root may do what it does"
  elif has_label memlock && ! may_lock all; then
    echo "it locks hundreds of MiB, and the memlock limit is $limit KiB: raise it with ulimit -l"
  elif has_label memlock_8M && ! may_lock 8; then
    echo "it locks up to 8 MiB, and the memlock limit is $limit KiB: raise it with ulimit -l"
  fi
}

work=$(mktemp -d) || exit 1

trap 'rm -rf "$work"' EXIT

# Reads a pipe that nobody writes to: its end comes with the test's.
show_stacks_before_the_end() {
  timeout $((seconds - seconds / 10 - 2)) cat "$work/running"
  [ $? = 124 ] || return
  echo "FAILED: it did not end in $seconds s. What its processes do:"
  sh "$folder/stacks.sh" "$(cat "$work/test")"
}
mkfifo "$work/running"
show_stacks_before_the_end &
exec 9> "$work/running"

# Shown as it comes: a test that hangs is killed, and what it said until then is wanted.
{
  status=0
  lack=$(lacks)
  if [ -n "$lack" ]; then
    echo "SKIPPED: $lack"
    status=77
  else
    sh -c 'echo $$ > "$0"; exec "$@"' "$work/test" "$@" 2>&1 || status=$?
  fi
  echo $status > "$work/status"
} 9>&- | tee "$work/output" 9>&-
exec 9>&-
wait
status=$(cat "$work/status")
reasons=$(sed -n 's/^SKIPPED: *\(..*\)/\1/p' "$work/output")

case $status in
  0) [ -n "$reasons" ] || exit 0 ;;
  77)
    [ -n "$reasons" ] || { echo "FAILED: it was skipped and says no reason (SKIPPED: ...)"; exit 1; }
    ! grep -qE '^(FAILED|BROKEN): ' "$work/output" ||
      { echo "FAILED: it failed before it was skipped"; exit 1; }
    ;;
  *) exit "$status" ;;
esac
for kind in $required; do
  if [ "$kind" = all ] || has_label "$kind" ||
    echo "$reasons" | grep -qwiF -- "$kind"; then
    echo "FAILED: it was skipped, and RDMALLOC_TESTS_REQUIRE asks for $kind: \
$(echo "$reasons" | head -n 1)"
    exit 1
  fi
done
exit "$status"
