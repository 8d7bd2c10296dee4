#!/bin/bash
# What a killed process leaves of its report under `rdmalloc run --report-every`.
. "$(dirname "$0")/common.sh"

# Waits, for at most 5 seconds, until EXPRESSION over `report`, the JSON object in a file, is true:
# the report's writer learns of the end when others do.
promise_soon() {
  for _ in $(seq 50); do
    [ -s "$1" ] && python3 -c '
import json, sys
report = json.load(open(sys.argv[1]))
sys.exit(0 if eval(sys.argv[2]) else 1)' "$1" "$2" 2>/dev/null && return
    sleep 0.1
  done
  [ -e "$1" ] || fail "there is no $1"
  promise_json "$1" "$2"
}

promise_no_leftovers() {
  [ -z "$(find "$work" -name '*.part')" ] || fail "left behind: $(find "$work" -name '*.part')"
}

killed_by() {
  try "$rdmalloc" run --report report.json --report-every 60 -- "$witness" "${@:2}"
  promise_status "$((128 + $1))"
  promise_soon report.json 'report["partial"] and report["ended"]'
  promise_json report.json '40 << 20 <= report["held_bytes"] == report["peak_held_bytes"]'
  promise_json report.json 'report["regions"] > 0 and report["pid"] > 0 and report["phases"] == []'
  promise_no_leftovers
}

kill_9() { killed_by 9 hold 40 kill 9; }
terminated() { killed_by 15 hold 40 kill 15; }
time_limit() {
  ulimit -S -t 1
  killed_by 24 hold 40 spin 9
}
time_limit_control() {
  ulimit -S -t 1
  try "$rdmalloc" run --report report.json -- "$witness" hold 40 spin 9
  promise_status 152
  sleep 1
  [ ! -e report.json ] || fail "there is a report: the tests of those that are killed prove nothing"
}

left_early() {
  try "$rdmalloc" run --report report.json --report-every 60 -- "$witness" hold 40 leave 7
  promise_status 7
  promise_soon report.json 'report["partial"] and report["ended"]'
  promise_json report.json 'report["held_bytes"] >= 40 << 20'
}
left_early_control() {
  try "$rdmalloc" run --report report.json -- "$witness" hold 40 leave 7
  promise_status 7
  sleep 1
  [ ! -e report.json ] || fail "_exit writes a report"
}

# A batch system kills all processes of a job at once.
watcher_too() {
  "$rdmalloc" run --report report.json --report-every 1 -- "$witness" hold 40 wait 30 &
  program=$!
  promise_soon report.json '40 << 20 <= report["held_bytes"] and not report["ended"]'
  promise_json report.json "report['pid'] == $program"
  watcher=$(pgrep -f "report-every 1 -- $witness hold 40" | grep -vx $program)
  [ "$(wc -w <<<"$watcher")" = 1 ] || fail "no watcher, or several: $watcher"
  kill -9 "$watcher" "$program"
  wait $program
  promise_json report.json '40 << 20 <= report["held_bytes"] and not report["ended"]'
}

own_report() {
  for _ in $(seq 20); do
    try "$rdmalloc" run --report report.json --report-every 1 -- "$witness" hold 40
    promise_status 0
    promise_json report.json '"partial" not in report and report["region_list"]'
  done
  sleep 1.5
  promise_json report.json '"partial" not in report and report["region_list"]'
  promise_no_leftovers
}

# The program stays its caller's child; the watcher is nobody's.
same_process() {
  try bash -c 'exec "$0" run --report report.json --report-every 1 -- "$1" pid' "$rdmalloc" "$witness"
  promise_json report.json "report['pid'] == $(cat "$work/out")"
  # Waiting for the end of the program's output must not mean waiting for the watcher.
  SECONDS=0
  "$rdmalloc" run --report 'r.%p' --report-every 60 -- \
    bash -c "$witness wait 20 >/dev/null 2>&1 & echo \$!" | cat >"$work/out"
  [ $SECONDS -lt 10 ] || fail "the watcher kept the program's pipe open"
  kill -9 "$(cat "$work/out")"
}

children() {
  try "$rdmalloc" run --report 'each.%p' --report-every 60 -- "$witness" hold 40 fork hold 50 kill 9
  promise_status 0
  # Their names end in the process id; beside them lies what a watcher is writing at the moment.
  for _ in $(seq 100); do
    mapfile -t reports < <(find . -regex './each\.[0-9]+')
    killed=$(grep -l '"ended": true' /dev/null "${reports[@]}")
    [ -n "$killed" ] && [ "${#reports[@]}" = 2 ] && break
    sleep 0.1
  done
  [ "${#reports[@]}" = 2 ] || fail "reports of two processes were due, there are: ${reports[*]}"
  [ "$(wc -w <<<"$killed")" = 1 ] || fail "of the child that was killed: ${killed:-none}"
  for report in "${reports[@]}"; do promise_soon "$report" 'report["held_bytes"] >= 40 << 20'; done
  promise_soon "$killed" \
    'report["forked"] == 1 and report["held_bytes"] >= 90 << 20'
  try "$rdmalloc" run --report one.json --report-every 60 -- "$witness" hold 40 fork hold 50 kill 9
  promise_json one.json 'report["forked"] == 0 and "partial" not in report'
}

executed() {
  try "$rdmalloc" run --report report.json --report-every 60 -- \
    "$witness" hold 40 exec "$witness" hold 70 kill 9
  promise_status 137
  promise_soon report.json 'report["held_bytes"] >= 70 << 20 and report["ended"]'
}

descriptors_closed() {
  killed_by 9 closed hold 40 kill 9
}

disk_full() {
  need_root "mount a file system"
  mkdir "$work/small"
  mount -t tmpfs -o size=64k none "$work/small" 2>/dev/null || skip "nothing may be mounted here"
  trap 'umount "$work/small"; rm -rf "$work"' EXIT
  try "$rdmalloc" run --report small/report.json -- "$witness" hold 40
  promise_json small/report.json 'report["region_list"]'
  cp small/report.json "$work/before"
  dd if=/dev/zero of=small/fill bs=1k 2>/dev/null
  for words in "hold 40" "hold 40 kill 9"; do
    # shellcheck disable=SC2086
    try "$rdmalloc" run --report small/report.json --report-every 1 -- "$witness" $words wait 3
    sleep 1
    cmp small/report.json before || fail "a full disk took the report that was there ($words)"
    [ "$(find small -name '*.part')" = "" ] || fail "left behind: $(ls small)"
  done
  try "$rdmalloc" run --report small/report.json -- "$witness" hold 40
  promise_said "the report could not be written to $work/small/report.json: No space left on device"
}

folder_gone() {
  mkdir gone
  try "$rdmalloc" run --report gone/report.json --report-every 1 -- \
    bash -c "rmdir gone; exec $witness hold 40 wait 3"
  promise_status 0
  promise_said "the report could not be written"
}

no_file() {
  try "$rdmalloc" run --report-every 5 -- "$witness" say started
  promise_refused "give --report FILE, too"
  try "$rdmalloc" run --report-every soon --report x -- "$witness" say started
  promise_refused "use a number from 0 to 65535"
}

nobody_there() {
  try env LD_PRELOAD="$work/lib/librdmalloc.so.0" RDMALLOC_REPORT=report.json \
    RDMALLOC_REPORT_EVERY=5 "$witness" hold 40
  promise_status 0
  promise_said "nobody watches it"
  promise_json report.json 'report["held_bytes"] >= 40 << 20'
}

# A pipe or a link is written to, not replaced.
not_replaced() {
  touch target && ln -s target link
  try "$rdmalloc" run --report link -- "$witness" hold 40
  [ -L link ] || fail "the link was replaced"
  promise_json target 'report["region_list"]'
  mkfifo pipe && cat pipe >piped &
  reader=$!
  while [ ! -p pipe ]; do sleep 0.1; done
  try "$rdmalloc" run --report pipe -- "$witness" hold 40
  wait $reader
  [ -p pipe ] || fail "the pipe was replaced"
  promise_json piped 'report["region_list"]'
}

run_case "$@"
