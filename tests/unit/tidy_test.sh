#!/bin/sh
# clang-tidy (.clang-tidy) reports nothing about the allocator. Skipped (77) without clang-tidy.
# usage: tidy_test.sh SOURCE_FOLDER BUILD_FOLDER
. "$(dirname "$0")/../support/verdict.sh"
cd "$1" || exit 2
need clang-tidy
[ -f "$2/compile_commands.json" ] || skip "no $2/compile_commands.json"
# Precompiled headers are g++'s, which clang-tidy refuses.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
sed -E 's/ -Winvalid-pch -include [^ ]*//' "$2/compile_commands.json" > "$work/compile_commands.json"
find allocator -name '*.cpp' -print0 |
  xargs -0 -n 1 -P "$(nproc)" clang-tidy --quiet --warnings-as-errors='*' -p "$work"
