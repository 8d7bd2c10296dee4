#!/bin/sh
# Where the engine comes from. The environment gives CMAKE and SOURCE.
#
#   engine_test.sh refused      no archive, or unsuitable sources: the message says what helps
#   engine_test.sh source       built from jemalloc's sources, from RDMALLOC_JEMALLOC_SOURCE or the
#                               distribution's mirror; malloc is in the window
set -eu
. "$(dirname "$0")/../../support/verdict.sh"
need cc make
work=$(mktemp -d "${TMPDIR:-/tmp}/rdmalloc-engine.XXXXXX")
trap 'rm -rf "$work"' EXIT
. "$(dirname "$0")/jemalloc_tree.sh"

# configure ARGUMENTS...: configures the engine alone as a project; its output goes to $work/log.
mkdir "$work/project"
cat > "$work/project/CMakeLists.txt" << END
cmake_minimum_required(VERSION 3.18)
project(engine LANGUAGES C CXX)
if(NOTHING_IS_INSTALLED)
  set(CMAKE_FIND_USE_CMAKE_SYSTEM_PATH OFF)
  set(CMAKE_FIND_USE_SYSTEM_ENVIRONMENT_PATH OFF)
endif()
list(APPEND CMAKE_MODULE_PATH $SOURCE/cmake)
set(PROJECT_SOURCE_DIR $SOURCE)
include(JemallocEngine)
END
configure() {
  rm -rf "$work/build"
  "$CMAKE" -S "$work/project" -B "$work/build" "$@" > "$work/log" 2>&1
}
refuses() {
  what=$1 says=$2
  shift 2
  if configure "$@"; then fail "$what is taken"; fi
  tr -s ' \n' ' ' < "$work/log" > "$work/words"
  for word in "$says" "-DRDMALLOC_JEMALLOC_SOURCE=DIR"; do
    grep -qF -e "$word" "$work/words" || {
      cat "$work/log"
      fail "$what is not answered with: $word"
    }
  done
  echo "- $what is answered with what helps"
}

refused() {
  refuses "no archive" "no libjemalloc_pic.a was found" -DNOTHING_IS_INSTALLED=ON
  mkdir -p "$work/other/jemalloc"
  echo '#define JEMALLOC_VERSION "5.2.1-0-gea6b3e9"' > "$work/other/jemalloc/jemalloc.h"
  ar rcs "$work/libjemalloc_pic.a"
  refuses "jemalloc 5.2" "5.2.1" -DJEMALLOC_INCLUDE="$work/other" -DJEMALLOC_ARCHIVE="$work/libjemalloc_pic.a"
  echo '#define JEMALLOC_VERSION "5.3.0-0-g54eaed1"' > "$work/other/jemalloc/jemalloc.h"
  refuses "an archive without what is wrapped" "does not define" \
    -DJEMALLOC_INCLUDE="$work/other" -DJEMALLOC_ARCHIVE="$work/libjemalloc_pic.a"
  if configure -DRDMALLOC_JEMALLOC_SOURCE="$work/other"; then fail "another folder is taken for jemalloc's sources"; fi
  grep -q "which has no" "$work/log" || fail "another folder is not refused by what it lacks"
  echo "- another folder is not taken for jemalloc's sources"
}

source() {
  tree=$(jemalloc_tree)
  [ -n "$tree" ] || skip "no sources of jemalloc: RDMALLOC_JEMALLOC_SOURCE names none, and no mirror has them"
  if ! "$CMAKE" -S "$SOURCE" -B "$work/build" -DRDMALLOC_JEMALLOC_SOURCE="$tree" -DCMAKE_UNITY_BUILD=ON \
    -DRDMALLOC_TESTS=OFF -DRDMALLOC_BENCH=OFF -DRDMALLOC_REPORT_CHARTS=OFF > "$work/log" 2>&1 ||
    ! "$CMAKE" --build "$work/build" -j2 --target rdmalloc_engine_proof > "$work/log" 2>&1; then
    tail -30 "$work/log"
    fail "it does not build from jemalloc's sources"
  fi
  "$work/build/bin/rdmalloc" info | head -20
  "$work/build/bin/rdmalloc" run --report "$work/report" -- python3 -c "x = [bytes(100000) for i in range(100)]"
  grep -q '"held_bytes": [1-9]' "$work/report" || fail "rdmalloc run wrote no report"
  echo "- made from its sources, jemalloc serves from the window"
}

"$1"
