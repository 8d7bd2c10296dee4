#!/bin/sh
# Builds the library, the shims and the command with an old compiler, warnings being errors, and runs
# a program under them. The build stays in the build folder, so that it is quick the next time. Each source is
# compiled by itself: precompiled headers would hide one that it does not include.
#
#   compiler_test.sh CC CXX PACKAGE     the package is what has them on Debian 12
#
# The environment gives CMAKE, BUILD, GENERATOR and SOURCE.
set -eu
. "$(dirname "$0")/../../support/verdict.sh"
cc=$1 cxx=$2 package=$3
command -v "$cxx" > /dev/null || skip "no $cxx: apt-get install $package"
work=$BUILD/$cc
mkdir -p "$work"
if ! CC=$cc CXX=$cxx "$CMAKE" -S "$SOURCE" -B "$work" -G "$GENERATOR" -DCMAKE_BUILD_TYPE=RelWithDebInfo \
  -DCMAKE_UNITY_BUILD=OFF -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON -DRDMALLOC_TESTS=OFF -DRDMALLOC_BENCH=OFF \
  -DRDMALLOC_WERROR=ON -DRDMALLOC_REPORT_CHARTS=OFF > "$work/log" 2>&1 ||
  ! "$CMAKE" --build "$work" -j2 > "$work/log" 2>&1; then
  grep -E "error|warning" "$work/log" | head -20
  tail -20 "$work/log"
  fail "it does not build with $cxx"
fi
"$work/bin/rdmalloc" info > "$work/log" || { cat "$work/log"; fail "rdmalloc info"; }
"$work/bin/rdmalloc" run --report "$work/report" -- python3 -c "x = [bytes(100000) for i in range(100)]"
grep -q '"held_bytes": [1-9]' "$work/report" || fail "rdmalloc run wrote no report"
echo "- built with $("$cxx" --version | head -1), malloc serves from the window"
