#!/bin/bash
# `rdmalloc shm-plan` prints the figures of the RFC "Fragmented sm Allocations", and refuses bad
# input.
. "$(dirname "$0")/common.sh"

plan() { try "$rdmalloc" shm-plan "$@"; }

# The named row has this many 10^6 bytes.
promise_row() {
  local found
  found=$(sed -n "s/^  $1  *\([0-9,]*\)  .*/\1/p" "$work/out")
  [ "$found" = "$2" ] || fail "the row $1 says '$found', promised was $2"
}

# The same rows in each column: wrappers, queues and tails, heads, eager free lists.
promise_column() {
  promise_status 0
  promise_row "CB wrappers" "$1"
  promise_row "CB queues+tails" "$2"
  promise_row "CB heads" "$3"
  promise_row "eager freelists" "$4"
}

rfc_separate() {
  plan --procs 1024 --layout page --page-size 8K
  promise_column 8,682 9,822 8,632 9,171
  plan --procs 1024 --layout page --page-size 4096
  promise_column 4,391 5,531 4,341 9,032
  plan --procs 1024 --layout cacheline --cacheline 128 --queue-entries 128
  promise_column 235 1,374 184 8,898
}

rfc_aggregated() {
  plan --procs 1024 --layout aggregated --eager-limit 4K --chunk-size 32K
  promise_status 0
  promise_row "FIFOs and CBs" 1,250
  promise_row "eager freelists" 8,898
  promise_row "max freelists" 270
  plan --procs 1024 --layout aggregated --queue-entries 16 --chunk-size 8K --eager-limit 256 \
    --eager-with-header
  promise_status 0
  promise_row "FIFOs and CBs" 311
  promise_row "eager freelists" 544
  promise_row "max freelists" 68
}

every_layout() {
  for layout in page cacheline aggregated mpsc; do
    for threads in single multiple; do
      for procs in 1 2 16 4096; do
        plan --procs $procs --layout $layout --threads $threads
        promise_status 0
        promise_printed total
      done
    done
  done
}

json() {
  for layout in page cacheline aggregated mpsc; do
    plan --procs 1024 --layout $layout --json
    promise_status 0
    cp "$work/out" "$work/$layout.json"
    promise_json "$work/$layout.json" \
      "sum(row['bytes'] for row in report['rows']) == report['bytes'] > 0"
    promise_json "$work/$layout.json" "report['procs'] == 1024 and report['layout'] == '$layout'"
  done
  promise_json "$work/mpsc.json" \
    "report['bytes'] * 1000 < json.load(open('$work/page.json'))['bytes']"
}

# Each list of fragments and boxes is counted in its own row: 8 eager fragments, then 64 more.
lists_and_boxes() {
  plan --procs 2 --json
  cp "$work/out" "$work/less.json"
  plan --procs 2 --json --eager-fragments 9 --max-fragments 16
  promise_status 0
  cp "$work/out" "$work/more.json"
  promise_json "$work/more.json" "(lambda rows, old:
    rows['eager freelists'] > 8 * old['eager freelists'] and
    rows['max freelists'] > 1.9 * old['max freelists'] and
    rows['FIFOs and CBs'] == old['FIFOs and CBs'])(*[
      {row['description']: row['bytes'] for row in one['rows']}
      for one in (report, json.load(open('$work/less.json')))])"
  plan --procs 9 --layout mpsc --cacheline 64 --boxes 4 --box-size 1K --eager-fragments 5 --json
  promise_status 0
  cp "$work/out" "$work/mpsc.json"
  # A box has a cache line before its slots, a fragment a header of 64 bytes.
  promise_json "$work/mpsc.json" "([row['bytes'] for row in report['rows']][1:3] ==
    [9 * 4 * (64 + 1024), 9 * 5 * (64 + 4096)])"
}

# Putting heads and tails on separate lines takes more room, but only where one allocation holds
# all.
threads() {
  for layout in aggregated page; do
    for threads in single multiple; do
      plan --procs 64 --layout $layout --threads $threads --json
      promise_status 0
      cp "$work/out" "$work/$layout-$threads.json"
      promise_json "$work/$layout-$threads.json" "report['threads'] == '$threads'"
    done
  done
  promise_json aggregated-multiple.json \
    "report['bytes'] > json.load(open('aggregated-single.json'))['bytes']"
  promise_json page-multiple.json "report['bytes'] == json.load(open('page-single.json'))['bytes']"
}

bad_numbers() {
  plan
  promise_refused "--procs is required"
  plan --procs 0
  promise_refused "--procs: must be at least 1, not 0"
  plan --procs 65537
  promise_refused "procs must be from 1 to 65536, not 65537"
  plan --procs 4294967296
  promise_refused "too large"
  plan --procs -4
  promise_refused "use a number"
  plan --procs 4 --page-size 5000
  promise_refused "page size must be a power of two from 4096"
  plan --procs 4 --cacheline 96
  promise_refused "cacheline must be a power of two"
  plan --procs 4 --queue-entries 100
  promise_refused "queue entries must be a power of two"
  plan --procs 4 --eager-limit 0
  promise_refused "--eager-limit: must be at least 1, not 0"
  plan --procs 4 --eager-limit 64 --eager-with-header
  promise_refused "eager limit must be from 65"
  plan --procs 4 --chunk-size 2G
  promise_refused "chunk size must be from 1 to 1073741824, not 2147483648"
  plan --procs 4 --chunk-size 10%
  promise_refused "use a number"
  plan --procs 4 --eager-fragments 2M
  promise_refused "eager fragments must be from 1 to 1048576, not 2097152"
  plan --procs 4 --max-fragments 0
  promise_refused "--max-fragments: must be at least 1, not 0"
  plan --procs 4 --layout mpsc --boxes 1025
  promise_refused "boxes must be from 1 to 1024, not 1025"
  plan --procs 4 --layout mpsc --box-size 128
  promise_refused "box size must be a power of two from 256"
}

bad_words() {
  plan --procs 4 --layout pages
  promise_refused "use aggregated, cacheline, mpsc or page"
  plan --procs 4 --threads 2
  promise_refused "use multiple or single"
  plan --procs 4 --bogus
  promise_refused "there is no option '--bogus'"
  plan --procs 4 stray
  promise_refused "stray"
}

too_long() {
  plan --procs 65536 --layout page --page-size 1G
  promise_refused "longer than a file can be"
}

run_case "$@"
