#!/bin/bash
# Replaying traces: what is requested, in which order and threads, and what a check finds.
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/trace_common.sh"

shipped() { ls "$source_folder"/bench/study/traces/*.rdtrace; }
small_trace() { echo "$source_folder/bench/study/traces/git.rdtrace"; }
digest_in_out() { sed -n 's/.*digest \([0-9a-f]*\)$/\1/p' "$work/out"; }

same_digest() {
  with_replay
  digests=
  for allocator in glibc rdmalloc jemalloc mimalloc tcmalloc glibc; do
    try "$rdmalloc" trace replay --under $allocator "$(small_trace)"
    ! grep -q "is not installed" "$work/err" || continue
    promise_status 0
    digests="$digests $(digest_in_out)"
  done
  [ "$(echo $digests | wc -w)" -ge 3 ] || fail "replayed too few times: $digests"
  [ "$(echo $digests | tr ' ' '\n' | sort -u | wc -l)" = 1 ] || fail "digests differ: $digests"
  # The control: a trace that requests one byte more gives another result.
  "$rdmalloc" trace text "$(small_trace)" | sed '0,/^a 0 [0-9]*/s//&1/' >text
  "$rdmalloc" trace import text other.rdtrace >/dev/null || fail "import"
  try "$rdmalloc" trace replay --under glibc other.rdtrace
  [ "$(digest_in_out)" != "${digests##* }" ] || fail "another trace has the same digest"
}

# A trace of this many threads that free what others allocated.
make_traffic() {
  awk -v threads="$1" 'BEGIN {
    srand(7); made = alive = 0
    for (i = 0; i < 4000; ++i) {
      thread = int(rand() * threads)
      if (alive == 0 || rand() < 0.55) {
        print (rand() < 0.3 ? "z" : "a"), made, int(rand() * 5000), "thread", thread
        object[alive++] = made++
      } else {
        one = int(rand() * alive)
        if (rand() < 0.3) {
          print "r", object[one], int(rand() * 9000), "thread", thread
        } else {
          print "f", object[one], "thread", thread
          object[one] = object[--alive]
        }
      }
    }
  }' | "$rdmalloc" trace import - traffic.rdtrace >/dev/null || fail "import"
}

recorded_again() {
  with_replay
  with_recorder
  make_traffic 100
  try "$rdmalloc" trace replay --check --repeat 2 traffic.rdtrace
  promise_status 0
  for trace in traffic.rdtrace "$(small_trace)"; do
    "$rdmalloc" trace record -o again.rdtrace -- "$work/bin/rdmalloc-replay" "$trace" \
      >record.log 2>&1 || fail "record: $(cat record.log)"
    "$rdmalloc" trace text "$trace" >first
    "$rdmalloc" trace text again.rdtrace >second
    python3 "$source_folder/tests/integration/allocator/tools/same_trace.py" first second || fail "not the same"
  done
  # The control: a recording with two events swapped.
  awk '/^f/ && !done { held = $0; done = 1; next } { print } held != "" { print held; held = "" }' \
    first >swapped
  ! cmp -s first swapped || fail "nothing was swapped"
  ! python3 "$source_folder/tests/integration/allocator/tools/same_trace.py" first swapped >/dev/null ||
    fail "a recording in another order counts as the same"
}

shipped_traces() {
  with_replay
  [ "$(shipped | wc -l)" -ge 5 ] || fail "fewer than five traces are shipped"
  for trace in $(shipped); do
    [ "$(stat -c %s "$trace")" -lt 1048576 ] || fail "$trace is not under 1 MiB"
    grep -qF "$(basename "$trace")" "$source_folder/bench/study/traces/README.md" ||
      fail "README.md does not say what $trace is"
    try "$rdmalloc" trace info "$trace"
    promise_status 0
    for allocator in glibc rdmalloc; do
      try timeout 60 "$rdmalloc" trace replay --check --under $allocator "$trace"
      promise_status 0
    done
  done
}

check_finds() {
  with_replay
  bad=$fixtures/libcli_bad_malloc.so
  printf 'a x 777\na y 777\nz z 500\na w 3000\nr w 90000\nf w\nf z\nf y\nf x\n' >text
  "$rdmalloc" trace import text one.rdtrace >/dev/null || fail "import"
  try env LD_PRELOAD="$bad" bin/rdmalloc-replay --check one.rdtrace
  promise_status 0
  for promise in "distinct:has changed" "zeroed:not zero" "kept:realloc lost" \
    "aligned:not aligned"; do
    try env LD_PRELOAD="$bad" BAD_MALLOC="${promise%%:*}" bin/rdmalloc-replay --check one.rdtrace
    promise_status 1
    promise_said "${promise#*:}"
  done
}

truncated() {
  with_replay
  trace=$source_folder/bench/study/traces/sqlite3.rdtrace
  head -c $(($(stat -c %s "$trace") / 2)) "$trace" >cut.rdtrace
  for verb in "replay --under glibc --check" "replay" text info; do
    # shellcheck disable=SC2086  # words
    try "$rdmalloc" trace $verb cut.rdtrace
    promise_status 3
    promise_said "cut off"
    [ -s "$work/out" ] || fail "nothing was done of what there is"
  done
  promise_printed "allocations"
}

damaged() {
  with_replay
  trace=$source_folder/bench/study/traces/sqlite3.rdtrace
  cp "$trace" damaged.rdtrace
  printf '\377\000\377' |
    dd of=damaged.rdtrace bs=1 seek=$(($(stat -c %s "$trace") - 2000)) conv=notrunc 2>/dev/null
  try "$rdmalloc" trace replay --under glibc damaged.rdtrace
  promise_status 2
  promise_said "damaged"
  [ ! -s "$work/out" ] || fail "something was replayed"
  for verb in text info; do
    try "$rdmalloc" trace $verb damaged.rdtrace
    promise_status 2
    promise_said "damaged"
  done
}

not_a_trace() {
  with_replay
  echo "just some text" >text
  : >empty
  for case in "text:is not a trace" "empty:is not a trace" "absent:No such file" "/:is a folder" \
    "/dev/zero:not a regular file"; do
    for verb in replay text info; do
      try timeout 10 "$rdmalloc" trace $verb "${case%%:*}"
      promise_status 2
      promise_said "${case#*:}"
    done
  done
}

refused_words() {
  with_replay
  trace=$(small_trace)
  try "$rdmalloc" trace replay --under hoard "$trace"
  promise_status 2
  promise_said "there is no allocator 'hoard': known are glibc"
  try "$rdmalloc" trace replay --under glibc --cap 1G "$trace"
  promise_status 2
  promise_said "--cap is an option of rdmalloc"
  for words in "--touch some" "--repeat 0" "--repeat x" "--nonsense" ""; do
    # shellcheck disable=SC2086  # words
    try "$rdmalloc" trace replay $words ${words:+"$trace"}
    promise_status 2
    # shellcheck disable=SC2086  # words
    try bin/rdmalloc-replay $words ${words:+"$trace"}
    promise_status 2
  done
  rm bin/rdmalloc-replay
  try "$rdmalloc" trace replay "$trace"
  promise_status 2
  promise_said "install rdmalloc-tools"
}

no_memory() {
  with_replay
  echo 'a x 100T' | "$rdmalloc" trace import - huge.rdtrace >/dev/null || fail "import"
  try "$rdmalloc" trace replay --under glibc huge.rdtrace
  promise_status 2
  promise_said "more than this machine has"
  try "$rdmalloc" trace replay --touch none --under glibc huge.rdtrace
  promise_status 1
  promise_said "Cannot allocate memory"
  printf 'a x 1M\na y 200M\n' | "$rdmalloc" trace import - big.rdtrace >/dev/null || fail "import"
  try "$rdmalloc" trace replay --touch none --memory-cap 64M big.rdtrace
  promise_status 1
  promise_said "event 1, of 209715200 bytes"
}

times() {
  with_replay
  printf 'a x 100\nf x at 700000000\n' | "$rdmalloc" trace import - slow.rdtrace >/dev/null
  before=$(date +%s%N)
  try "$rdmalloc" trace replay --times --under glibc slow.rdtrace
  promise_status 0
  [ $(($(date +%s%N) - before)) -ge 700000000 ] || fail "made a call before its time"
}

repeats() {
  with_replay
  try "$rdmalloc" trace replay --under glibc "$(small_trace)"
  once=$(digest_in_out)
  try "$rdmalloc" trace replay --under glibc --repeat 3 --check "$(small_trace)"
  promise_status 0
  [ "$(digest_in_out)" = "$once" ] || fail "repeating asks for something else"
  # Objects left at the end of a pass are freed before the next: one pass's address space suffices.
  echo 'a x 300M' | "$rdmalloc" trace import - leak.rdtrace >/dev/null
  (
    ulimit -v 500000
    try "$rdmalloc" trace replay --touch none --under glibc --repeat 20 leak.rdtrace
    promise_status 0
  ) || exit 1
}

ordinary_user() {
  with_replay
  cp "$(small_trace)" small.rdtrace
  chmod -R a+rX "$work"
  for allocator in glibc rdmalloc; do
    ulimit -l 64
    try_as_user "$rdmalloc" trace replay --check --under $allocator small.rdtrace
    promise_status 0
  done
}

no_malloc_of_its_own() {
  with_replay
  with_recorder
  printf 'a only 12345\n' | "$rdmalloc" trace import - one.rdtrace >/dev/null || fail "import"
  "$rdmalloc" trace record -o again.rdtrace -- "$work/bin/rdmalloc-replay" one.rdtrace \
    >record.log 2>&1 || fail "record: $(cat record.log)"
  "$rdmalloc" trace text again.rdtrace | grep -v ^program >second
  [ "$(sed 's/ at .*//' second)" = "a 0 12345" ] || fail "it allocates for itself: $(cat second)"
}

take_programs "$@"
run_case "$@"
