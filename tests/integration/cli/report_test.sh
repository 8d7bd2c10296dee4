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

unwritable() {
  try "$rdmalloc" run --report no_such_folder/report -- "$witness" say started
  promise_refused "cannot write the report to no_such_folder/report"
  try "$rdmalloc" run --report "$work/bin" -- "$witness" say started
  promise_refused "is a folder"
}

run_case "$@"
