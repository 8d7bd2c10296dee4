#!/bin/bash
# The report of a program that `rdmalloc run --report` started.
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
    promise_refused "'$name' is malformed: %p, %r, %j, %h and %% may be in a file name"
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
