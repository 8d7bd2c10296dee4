#!/bin/bash
# The report of a program started by `rdmalloc run --report`.
. "$(dirname "$0")/common.sh"

valid() {
  try "$rdmalloc" run --report report.json -- "$witness" hold 8
  promise_status 0
  promise_json report.json 'report["held_bytes"] > 8 << 20'
  promise_json report.json 'report["regions"] == len(report["region_list"]) > 0'
  promise_json report.json 'sum(r["length"] for r in report["region_list"]) == report["held_bytes"]'
}

equals_kernel() {
  try "$rdmalloc" run --report report.json -- "$witness" hold 1 hold 20 hold 3 locked
  promise_status 0
  locked=$(cat "$work/out")
  promise_json report.json "report['pinned_bytes'] == $locked"
}

equals_kernel_under_limit() {
  need_root "become another user"
  chmod 777 "$work"
  ulimit -l 16384
  try_as_user "$rdmalloc" run --report report.json -- "$witness" hold 1 hold 20 hold 3 locked
  promise_status 0
  locked=$(cat "$work/out")
  promise_json report.json "report['pinned_bytes'] == $locked <= 16 << 20"
  promise_json report.json "report['overflow_bytes'] > 0"
  promise_json report.json "report['budget_limited_by'] == 'memlock'"
}

# Five lines in MiB, with the process's number and name.
in_five_lines() {
  try "$rdmalloc" run --stats -- "$witness" hold 4 pid
  promise_status 0
  [ "$(wc -l <"$work/err")" = 5 ] || fail "these are not five lines: $(cat "$work/err")"
  head -n 1 "$work/err" | grep -qx "rdmalloc statistics of process $(cat "$work/out") (${witness##*/})" ||
    fail "the first line does not name the process"
  for pattern in '  live     [0-9.]* MiB, at most [0-9.]* MiB' \
    '  held     [0-9.]* MiB, at most [0-9.]* MiB: [0-9.]* MiB pinned, [0-9.]* MiB overflow, [0-9.]* MiB sparse' \
    '  budget   [0-9.]* MiB may be pinned, limited by [a-z]*' \
    '  devices  0 registrations of 0.0 MiB; 0 lookups, 0 in vain; foreign memory: 0 hits, 0 misses'; do
    grep -qx "$pattern" "$work/err" || fail "no line is like '$pattern': $(cat "$work/err")"
  done
  try env RDMALLOC_STATS=full "$rdmalloc" run -- "$witness"
  grep -qE "^ *held_bytes +[0-9]+" "$work/err" || fail "the variable does not ask for all figures"
  try "$rdmalloc" run --stats=much -- "$witness"
  promise_refused "invalid value 'much': use on, off or full"
}

# Every figure has a line, and if the program prints nothing there are no other lines.
as_text() {
  try "$rdmalloc" run --stats=full -- "$witness" hold 8
  promise_status 0
  for name in $(sed -n 's/^  X(\([a-z_]*\),.*/\1/p' "$source_folder/include/rdmalloc/rdmalloc.h"); do
    grep -qE "^ *$name +[0-9]+" "$work/err" || fail "the text has no $name"
  done
  [ "$(awk '$1 == "held_bytes" { print ($2 > 8 * 1048576) }' "$work/err")" = 1 ] ||
    fail "the text does not say what is held"
  for words in run "run --stats=off"; do
    # shellcheck disable=SC2086  # words
    try "$rdmalloc" $words -- "$witness" hold 8
    [ ! -s "$work/err" ] || fail "something is printed unasked"
  done
}

relative_path() {
  mkdir "$work/elsewhere"
  try "$rdmalloc" run --report report.json -- "$witness" chdir "$work/elsewhere"
  [ -s "$work/report.json" ] || fail "the report is not where run was started"
}

each_process() {
  try "$rdmalloc" run --report 'report.%p' -- "$witness" pid
  [ -s "$work/report.$(cat "$work/out")" ] || fail "%p did not become the process id"
}

each_rank() {
  for launcher in OMPI_COMM_WORLD_RANK=3 PMIX_RANK=4 PMI_RANK=5 SLURM_PROCID=6; do
    try env "$launcher" "$rdmalloc" run --report 'rank-%r' -- "$witness" say started
    [ -s "$work/rank-${launcher#*=}" ] || fail "%r did not become the rank of $launcher"
  done
  try env PMI_RANK=../5 "$rdmalloc" run --report 'rank-%r' -- "$witness" pid
  [ -s "$work/rank-$(cat "$work/out")" ] || fail "without a rank %r did not become the process id"
}

named_by_all() {
  for job in SLURM_JOB_ID=77 PBS_JOBID=12.server LSB_JOBID=5 PMIX_NAMESPACE=a/b; do
    try env "$job" PMI_RANK=3 "$rdmalloc" run --report '%h-%j-%r-50%%.json' -- "$witness" hold 8
    name=$(uname -n)-$(tr / _ <<<"${job#*=}")-3-50%.json
    [ -s "$work/$name" ] || fail "no $name of $job: $(ls "$work")"
  done
  try "$rdmalloc" run --report 'job-%j' -- "$witness" pid
  [ -s "$work/job-$(cat "$work/out")" ] || fail "without a job %j did not become the process id"
  mkdir "in-$(uname -n)"
  try "$rdmalloc" run --report 'in-%h/report' -- "$witness" hold 8
  promise_json "in-$(uname -n)/report" 'report["regions"]'
}

unknown_letter() {
  for name in 'report.%d' 'report.%' '%n.json'; do
    try "$rdmalloc" run --report "$name" -- "$witness" say started
    promise_refused "invalid value '$name': %p, %r, %j, %h and %% may be in a file name"
    try env RDMALLOC_REPORT="$name" "$rdmalloc" run -- "$witness" say started
    promise_said "RDMALLOC_REPORT=$name (%p, %r, %j, %h and %% may be in a file name"
  done
}

odd_folder() {
  mkdir '50%p' && cd '50%p' || exit 1
  try "$rdmalloc" run --report 'report.json' -- "$witness" hold 8
  promise_json "$work/50%p/report.json" 'report["regions"]'
}

unwritable() {
  try "$rdmalloc" run --report no_such_folder/report -- "$witness" say started
  promise_refused "cannot write the report to no_such_folder/report"
  try "$rdmalloc" run --report "$work/bin" -- "$witness" say started
  promise_refused "is a folder"
}

run_case "$@"
