#!/bin/bash
# Everything written about the options comes from the one table.
. "$(dirname "$0")/common.sh"

names() { sed -n 's/^OPTION(\([a-z_]*\),.*/\1/p' "$source_folder/allocator/limits/options.def"; }
variables() { names | sed 's/.*/RDMALLOC_\U&/'; }
flags() { names | tr _ - | sed 's/^/--/'; }
statistics() {
  sed -n 's/^  X(\([a-z_]*\),.*/\1/p' "$source_folder/include/rdmalloc/rdmalloc.h"
}

promise_all_in_out() {
  [ $# -gt 5 ] || fail "the table could not be read"
  for word; do promise_printed "$word"; done
}

help() {
  try "$rdmalloc" run --help
  promise_status 0
  promise_all_in_out $(flags)
  [ "$(awk 'length > 79' "$work/out")" = "" ] || fail "a line is longer than 79 columns"
  for command in "" info doctor options shm-plan study top stats trace "trace record" "trace replay" \
    "trace import" "trace text" "trace info"; do
    # shellcheck disable=SC2086  # words
    try "$rdmalloc" $command --help
    promise_status 0
    [ -s "$work/out" ] || fail "no help for $command"
  done
}

markdown() {
  try "$rdmalloc" options --markdown
  promise_all_in_out $(variables) $(flags)
}

readme() {
  try "$rdmalloc" options --markdown
  promise_all_in_out $(variables) $(flags)
  sed -n '/^<!-- options:/,/^<!-- end of options/p' "$source_folder/allocator/OPTIONS.md" 2>/dev/null |
    grep '^|' >"$work/table"
  diff "$work/table" "$work/out" >"$work/err" ||
    fail "allocator/OPTIONS.md has another table of options than: rdmalloc options --markdown"
}

promise_rendered() {
  try env LC_ALL=C MANWIDTH=200 man -l --warnings "$1"
  promise_status 0
  [ ! -s "$work/err" ] || fail "the page ${2:-$1} renders with warnings"
}

man_pages() {
  need man
  ! man man 2>/dev/null | grep -q "has been minimized" || skip "man shows no pages on this minimized system"
  promise_rendered "$source_folder/allocator/trace/rdmalloc-replay.1"
  promise_all_in_out SYNOPSIS --touch --check --times --repeat LD_PRELOAD
  for page in rdmalloc run info doctor options shm-plan study top stats trace trace-record trace-replay \
    trace-import trace-text trace-info environment; do
    "$rdmalloc" man $page >"$work/page" || fail "no page $page"
    promise_rendered "$work/page" $page
    [ $page != run ] || promise_all_in_out $(flags)
    [ $page != environment ] || promise_all_in_out $(variables) $(statistics)
  done
}

version() {
  try "$rdmalloc" --version
  promise_status 0
  grep -qE '^rdmalloc [0-9]+\.[0-9]+\.[0-9]+$' "$work/out" || fail "that is no version"
  cp "$work/out" "$work/version"
  try "$rdmalloc" version
  promise_status 0
  cmp -s "$work/out" "$work/version" || fail "'version' is not '--version'"
}

help_of_a_word() {
  for words in "" run "trace record"; do
    # shellcheck disable=SC2086
    "$rdmalloc" $words --help >"$work/page"
    # shellcheck disable=SC2086
    try "$rdmalloc" help $words
    promise_status 0
    cmp -s "$work/out" "$work/page" || fail "'help $words' is not '$words --help'"
  done
  try "$rdmalloc" help bogus
  promise_refused "there is no command 'bogus'"
}

full_disk() {
  for words in options info doctor version "help run" "shm-plan --procs 4" "run --help"; do
    # shellcheck disable=SC2086
    "$rdmalloc" $words >/dev/full 2>"$work/err" && fail "'$words' passes on a full disk"
    grep -qx "rdmalloc: not all of the output could be written: No space left on device" "$work/err" ||
      fail "'$words' does not say that the disk is full"
  done
}

wrong_words() {
  try "$rdmalloc"
  promise_status 2
  promise_said "no command was given"
  grep -q '^  doctor ' "$work/out" || fail "the commands are not listed"
  try "$rdmalloc" bogus
  promise_refused "there is no command 'bogus'"
  try "$rdmalloc" info --bogus
  promise_refused "there is no option '--bogus'"
  try "$rdmalloc" doctor bogus
  promise_refused "doctor: 'bogus' is one word too many"
  try "$rdmalloc" trace bogus
  promise_refused "there is no command 'trace bogus'"
  try "$rdmalloc" run --cap
  promise_refused "run: --cap has no value"
  try "$rdmalloc" run --report -- true
  promise_refused "--report has no value: there is '--' behind it"
  [ ! -e ./-- ] || fail "a report was written to a file called --"
  while read -r meant words; do
    # shellcheck disable=SC2086
    try "$rdmalloc" $words
    promise_refused "did you mean '$meant'?"
  done <<END
run rnu
doctor docter
study stdy
replay trace reply
--memory-cap run --memory-cpa 1G true
--stats run --sttas true
--json info --jsn
END
  try "$rdmalloc" trace cots
  promise_refused "there is no command 'trace cots': see"  # "cost" is hidden
  try "$rdmalloc" man bogus
  promise_refused "there is no page 'bogus'"
}

run_case "$@"
