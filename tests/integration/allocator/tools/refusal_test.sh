#!/bin/bash
# `rdmalloc run` refuses exactly those programs into which ld.so would not load the library.
. "$(dirname "$0")/common.sh"

# The library was loaded into a program exactly when there is a report of it.
promise_preloaded() {
  rm -f "$work/report"
  try "$@"
  promise_status 0
  [ -s "$work/report" ] || fail "the library was not loaded"
}

static() {
  [ -x "$fixtures/cli_static" ] || skip "no static libc to build a program with"
  cp "$fixtures/cli_static" "$work/static"
  try "$rdmalloc" run -- "$work/static" say started
  promise_refused "is statically linked"
  printf '#!%s\n' "$work/static" >"$work/script"
  chmod 755 "$work/script"
  try "$rdmalloc" run -- "$work/script"
  promise_refused "is statically linked"
}

architecture() {
  # In an ELF header byte 18 is the machine and byte 4 the class.
  cp "$witness" "$work/foreign"
  printf '\267' | dd of="$work/foreign" bs=1 seek=18 conv=notrunc 2>/dev/null
  [ "$(uname -m)" != aarch64 ] || skip "the foreign machine of this test is this one"
  try "$rdmalloc" run -- "$work/foreign" say started
  promise_refused "is a 64-bit aarch64 program"
  cp "$witness" "$work/foreign"
  printf '\001' | dd of="$work/foreign" bs=1 seek=4 conv=notrunc 2>/dev/null
  try "$rdmalloc" run -- "$work/foreign" say started
  promise_refused "is a 32-bit"
}

damaged() {
  # Within what is loaded: symbols and debug information may be missing.
  third=$(($(stat -c %s "$witness") / 3))
  for size in 5 20 64 100 700 1000 $third; do
    head -c $size "$witness" >"$work/cut"
    chmod 755 "$work/cut"
    try "$rdmalloc" run -- "$work/cut" say started
    [ "$status" = 2 ] || [ "$status" = 126 ] || fail "status $status for $size bytes"
    [ -s "$work/err" ] || fail "no word about a program cut to $size bytes"
  done
}

set_user_id() {
  need_root "give a file to another user"
  chown 65534 "$witness"
  chmod 4755 "$witness"
  try "$rdmalloc" run -- "$witness" say started
  promise_refused "is set-user-id to another user"
  promise_preloaded setpriv --no-new-privs "$rdmalloc" run --report "$work/report" -- "$witness"
}

set_group_id() {
  need_root "give a file to another group"
  chgrp 65534 "$witness"
  chmod 2755 "$witness"
  try "$rdmalloc" run -- "$witness" say started
  promise_refused "is set-group-id to another group"
}

capabilities() {
  need_root "give a file capabilities"
  need setcap
  setcap cap_net_raw=ep "$witness" || skip "this file system keeps no capabilities"
  try_as_user "$rdmalloc" run -- "$witness" say started
  promise_refused "has file capabilities"
  promise_preloaded "$rdmalloc" run --report "$work/report" -- "$witness"
}

own_rights() {
  # If the caller already has these rights, ld.so loads the library all the same.
  chmod 6755 "$witness"
  promise_preloaded "$rdmalloc" run --report "$work/report" -- "$witness"
}

own_malloc() {
  try "$rdmalloc" run -- "$fixtures/cli_own_malloc"
  promise_status 0
  promise_said "brings a malloc of its own"
  try "$rdmalloc" run --warn=off -- "$fixtures/cli_own_malloc"
  [ ! -s "$work/err" ] || fail "--warn=off did not silence it"
}

run_case "$@"
