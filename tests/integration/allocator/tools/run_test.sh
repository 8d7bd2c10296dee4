#!/bin/bash
# What `rdmalloc run` promises about the program it starts. Usage: see common.sh.
. "$(dirname "$0")/common.sh"

exit_status() {
  for expected in 0 1 77 255; do
    try "$rdmalloc" run -- "$witness" exit $expected
    promise_status $expected
  done
}

signal() {
  for number in 9 15; do
    try "$rdmalloc" run -- "$witness" kill $number
    promise_status $((128 + number))
  done
}

same_process() {
  "$rdmalloc" run -- "$witness" pid >"$work/out" &
  started=$!
  wait $started
  promise_printed $started
}

arguments() {
  try "$rdmalloc" run --cap 1G --strict "$witness" say --cap say -- say ''
  promise_status 0
  [ "$(tr '\n' , <"$work/out")" = "--cap,--,," ] || fail "the arguments came out differently"
  try "$rdmalloc" run -- "$witness" say --help
  promise_printed --help
}

search_path() {
  mkdir "$work/first" "$work/second"
  cp "$witness" "$work/second/found"
  : >"$work/first/found"
  try env PATH="$work/first:$work/second:$PATH" "$rdmalloc" run found say started
  promise_status 0
  promise_printed started
}

not_found() {
  try "$rdmalloc" run -- no_such_program
  promise_status 127
  promise_said "not found on PATH"
  try "$rdmalloc" run -- ./no_such_program
  promise_status 127
}

not_executable() {
  : >"$work/file"
  try "$rdmalloc" run -- "$work/file"
  promise_status 126
  try "$rdmalloc" run -- "$work"
  promise_status 126
  promise_said "is a directory"
  echo "no first line" >"$work/file"
  chmod 755 "$work/file"
  try "$rdmalloc" run -- "$work/file"
  promise_status 126
  promise_said "rdmalloc run -- sh"
}

script() {
  printf '#!/bin/sh\necho started with $LD_PRELOAD\nexit 5\n' >"$work/script"
  chmod 755 "$work/script"
  try "$rdmalloc" run -- "$work/script"
  promise_status 5
  promise_printed librdmalloc.so
}

unknown_flag() {
  try "$rdmalloc" run --no-such-flag -- "$witness" say started
  promise_refused "there is no option '--no-such-flag'"
}

malformed_value() {
  try "$rdmalloc" run --cap 12Q -- "$witness" say started
  promise_refused "--cap: invalid value '12Q': use bytes"
  try "$rdmalloc" run --strict=perhaps -- "$witness" say started
  promise_refused "--strict: invalid value 'perhaps': use on or off"
  try "$rdmalloc" run --huge=1G -- "$witness" say started
  promise_refused "use auto, off, thp or hugetlb"
  try "$rdmalloc" run --cap
  promise_refused "--cap"
}

no_program() {
  try "$rdmalloc" run --strict
  promise_refused "no program was named"
}

flags_set_variables() {
  try env RDMALLOC_CAP=1G RDMALLOC_WINDOW=1G "$rdmalloc" run --cap 64M --memory-cap=2G --seal \
    --strict=off --stats=off env
  promise_status 0
  for line in RDMALLOC_CAP=64M RDMALLOC_WINDOW=1G RDMALLOC_MEMORY_CAP=2G RDMALLOC_SEAL=on \
    RDMALLOC_STRICT=off RDMALLOC_STATS=off; do
    grep -qx "$line" "$work/out" || fail "the program does not have $line"
  done
}

preload_kept() {
  cp "$work/lib/librdmalloc.so.0" "$work/other.so"
  try env LD_PRELOAD="$work/other.so" "$rdmalloc" run env
  promise_printed "LD_PRELOAD=$work/lib/librdmalloc.so.0:$work/other.so"
}

nested() {
  try "$rdmalloc" run -- "$rdmalloc" run -- env
  promise_status 0
  grep -qx "LD_PRELOAD=$work/lib/librdmalloc.so.0" "$work/out" || fail "preloaded twice"
}

library_missing() {
  rm "$work/lib/librdmalloc.so.0"
  try "$rdmalloc" run -- "$witness" say started
  promise_refused "cannot find the library $work/lib/librdmalloc.so.0"
}

library_path() {
  mkdir "$work/with blank"
  mv "$work/bin" "$work/lib" "$work/with blank"
  try "$work/with blank/bin/rdmalloc" run -- "$witness" say started
  promise_refused "a blank or a colon in the path"
}

# The shim itself is not loaded here: any library of its name will do.
verbs_both_preloaded() {
  cp "$work/lib/librdmalloc.so.0" "$work/lib/librdmalloc-verbs.so"
  both=$work/lib/librdmalloc.so.0:$work/lib/librdmalloc-verbs.so
  try env LD_PRELOAD="$work/lib/librdmalloc.so.0" "$rdmalloc" run --verbs -- "$rdmalloc" run env
  promise_status 0
  promise_printed "LD_PRELOAD=$both"
  ! grep -q RDMALLOC_VERBS "$work/out" || fail "remote rights are shared unasked"
  try "$rdmalloc" run --verbs --share-remote --verbs-stats -- env
  promise_printed "LD_PRELOAD=$both"
  promise_printed RDMALLOC_VERBS_SHARE_REMOTE=on
  promise_printed RDMALLOC_VERBS_STATS=on
  [ ! -s "$work/err" ] || fail "something was said"
}

each_shim() {
  for shim in verbs ucx ofi mpi; do
    cp "$work/lib/librdmalloc.so.0" "$work/lib/librdmalloc-$shim.so"
    try "$rdmalloc" run --$shim -- env
    promise_status 0
    # UCX's registrations are answered by the shim for verbs, where it was built.
    beside=
    [ $shim = ucx ] && beside=$work/lib/librdmalloc-verbs.so:
    grep -qx "LD_PRELOAD=$work/lib/librdmalloc.so.0:$beside$work/lib/librdmalloc-$shim.so" "$work/out" ||
      fail "--$shim preloads something else"
  done
  rm "$work/lib/librdmalloc-verbs.so"
  try "$rdmalloc" run --ucx -- env
  grep -qx "LD_PRELOAD=$work/lib/librdmalloc.so.0:$work/lib/librdmalloc-ucx.so" "$work/out" ||
    fail "--ucx needs a shim that was not built"
  try "$rdmalloc" run -- env
  grep -qx "LD_PRELOAD=$work/lib/librdmalloc.so.0" "$work/out" || fail "a shim is preloaded unasked"
}

shims_missing() {
  for shim in verbs ucx ofi mpi; do
    try "$rdmalloc" run --$shim -- "$witness" say started
    promise_refused "cannot find the library $work/lib/librdmalloc-$shim.so"
  done
}

verbs_share_alone() {
  try "$rdmalloc" run --share-remote -- "$witness" say started
  promise_refused "give that, too"
}

verbs_by_name() {
  need cc
  cp "$work/lib/librdmalloc.so.0" "$work/lib/librdmalloc-verbs.so"
  echo 'int puts(const char *); int main(void) { return puts("libibverbs.so.1") < 0; }' >"$work/p.c"
  cc -o "$work/by_name" "$work/p.c" || skip "the C compiler does not work"
  try "$rdmalloc" run --verbs -- "$work/by_name"
  promise_status 0
  promise_said "names libibverbs in its data"
  try "$rdmalloc" run -- "$work/by_name"
  [ ! -s "$work/err" ] || fail "something was said without --verbs"
}

run_case "$@"
