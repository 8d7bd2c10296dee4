#!/bin/sh
# clang-tidy (.clang-tidy) has nothing to say about the allocator. Skipped (77) without clang-tidy.
# usage: tidy_test.sh SOURCE_FOLDER BUILD_FOLDER
cd "$1" || exit 2
command -v clang-tidy >/dev/null || { echo "SKIPPED: no clang-tidy"; exit 77; }
[ -f "$2/compile_commands.json" ] || { echo "SKIPPED: no $2/compile_commands.json"; exit 77; }
find allocator -name '*.cpp' -print0 |
  xargs -0 -n 1 -P "$(nproc)" clang-tidy --quiet --warnings-as-errors='*' -p "$2"
