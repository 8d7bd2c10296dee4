# For the scripts in tests/guest/tests, which run in the guest. Each consists of lines such as:
#
#   promise "sentence" COMMAND...         the command must end with status 0
#   control "sentence" REGEX COMMAND...   the same without the library: must end with status 1 and print
#                                         a line that matches, so that it fails for the intended reason
#
# The sentence stands on the first line: CMake makes a test of each such line. A command that ends
# with 77 is skipped and has printed the reason: "SKIPPED: REASON".
set -u
# shellcheck disable=SC2034  # used by the scripts that source this
programs=$GUEST_BUILD/tests/guest
library=$GUEST_BUILD/lib/librdmalloc.so
rdmalloc=$GUEST_BUILD/bin/rdmalloc
# What each command may take. On a quiet machine none takes a fifth of it; beside builds one may take most.
seconds=300
# A slow guest takes longer than UCX's 30 s. The ranks of mpirun inherit it.
export UCX_UD_VERBS_TIMEOUT=10m

verdict() {
  printf '%s\t%s\t%s\n' "$1" "$2" "$3" >> "$GUEST_RESULTS/verdicts"
  # To the console, for anyone watching.
  echo "$1 $2${3:+: $3}" > /dev/console
}

# If this program is missing, the rest of the script is skipped.
absent=
requires() {
  command -v "$1" > /dev/null || absent=$2
}

# Shows where in the kernel each thread is, for a command that does not end. Quickly, by one program, and
# without command lines: reading those waits for a thread that changes mappings and is stuck in it.
show_threads() {
  echo "-- after $1 seconds"
  grep -s -E '^(Name|State):|\[<' /proc/[0-9]*/task/[0-9]*/stack /proc/[0-9]*/task/[0-9]*/status |
    sort -s -V -t : -k 1,1
}

# What the processors have done so far, in ticks of 10 ms.
busy() {
  awk '{ print $2 + $3 + $4 + $7 + $8; exit }' /proc/stat
}

run_case() {
  expected=$1
  sentence=$2
  shift 2
  echo "== $sentence"
  if [ -n "$absent" ]; then
    verdict SKIP "$sentence" "$absent"
    return
  fi
  echo "\$ $*"
  started=$(date +%s%N)
  before=$(busy)
  { sleep "$seconds"; show_threads "$seconds"; } &
  watch=$!
  timeout -k 5 $((seconds + 5)) "$@" < /dev/null > /tmp/output 2>&1
  status=$?
  kill "$watch" 2> /dev/null
  cat /tmp/output
  echo "-- status $status after $((($(date +%s%N) - started) / 1000000)) ms," \
    "$((($(busy) - before) * 10)) ms of CPU time"
  case $status in
    "$expected")
      if [ -z "$says" ] || grep -qE -- "$says" /tmp/output; then
        verdict PASS "$sentence" ""
      else
        verdict FAIL "$sentence" "status $status as promised, but no line matches '$says'"
      fi
      ;;
    77)
      reason=$(sed -n 's/^SKIPPED: //p' /tmp/output | tail -n 1)
      if [ -n "$reason" ]; then
        verdict SKIP "$sentence" "$reason"
      else
        verdict FAIL "$sentence" "skipped, and says no reason"
      fi
      ;;
    124|137) verdict FAIL "$sentence" "not done after $seconds seconds" ;;
    *) verdict FAIL "$sentence" "status $status, not $expected: $(tail -n 1 /tmp/output)" ;;
  esac
}

promise() {
  says=
  run_case 0 "$@"
}

control() {
  control_sentence=$1
  says=$2
  shift 2
  run_case 1 "control: $control_sentence" "$@"
}

# As an argument of promise or control: runs the rest with the library preloaded.
with=env\ LD_PRELOAD=$library
