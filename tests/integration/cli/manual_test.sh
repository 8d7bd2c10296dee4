#!/bin/bash
# Everything that is written about the options comes from the one table.
. "$(dirname "$0")/common.sh"

names() { sed -n 's/^OPTION(\([a-z_]*\),.*/\1/p' "$source_folder/allocator/options.def"; }
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
  grep -qF "$(head -1 "$work/out")" "$source_folder/README.md" 2>/dev/null ||
    fail "README.md has no option table, or one with another head"
  while read -r line; do
    grep -qxF -- "$line" "$source_folder/README.md" || fail "README.md does not have: $line"
  done <"$work/out"
}

man_pages() {
  command -v man >/dev/null || skip "no man"
  for page in rdmalloc run info doctor options shm-plan study top stats trace trace-record trace-replay \
    trace-import trace-text trace-info environment; do
    "$rdmalloc" man $page >"$work/page" || fail "no page $page"
    try env LC_ALL=C MANWIDTH=200 man -l --warnings "$work/page"
    promise_status 0
    [ ! -s "$work/err" ] || fail "the page $page renders with warnings"
    [ $page != run ] || promise_all_in_out $(flags)
    [ $page != environment ] || promise_all_in_out $(variables) $(statistics)
  done
}

version() {
  try "$rdmalloc" --version
  promise_status 0
  grep -qE '^rdmalloc [0-9]+\.[0-9]+\.[0-9]+$' "$work/out" || fail "that is no version"
}

wrong_words() {
  try "$rdmalloc"
  promise_refused "no command was given"
  try "$rdmalloc" bogus
  promise_refused "there is no command 'bogus'"
  try "$rdmalloc" info --bogus
  promise_refused "there is no option '--bogus'"
  try "$rdmalloc" man bogus
  promise_refused "there is no page 'bogus'"
}

run_case "$@"
