#!/bin/sh
# Prints what a process and all that come from it do: their threads' stacks, as gdb sees them, or
# where in the kernel they wait.
#
#   stacks.sh PID
set -u

children_of() {
  cat /proc/"$1"/task/*/children 2> /dev/null
}

# At most ten seconds and 40 frames for a process: a test that hangs may have many.
show() {
  echo "== $1: $(tr '\0' ' ' < /proc/"$1"/cmdline 2> /dev/null | cut -c 1-200)"
  for task in /proc/"$1"/task/*; do
    echo "   thread ${task##*/} waits in $(cat "$task/wchan" 2> /dev/null)"
  done
  timeout 10 gdb -nx -batch -p "$1" -ex "set pagination off" -ex "thread apply all bt 40" 2>&1 |
    grep -E '^(Thread|#)|not permitted|not found' || echo "   gdb shows no stack"
}

shown=0
show_all() {
  for process in "$@"; do
    [ $shown -lt 16 ] || { echo "and more processes"; return; }
    shown=$((shown + 1))
    show "$process"
    # shellcheck disable=SC2046  # a list of numbers
    show_all $(children_of "$process")
  done
}
show_all "$1"
