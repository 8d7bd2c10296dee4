#!/bin/sh
# The source tarball has every file of the tree and the chart library, so building from it gives
# charts without npm; building the bare tree reports what it lacks. The environment gives CMAKE,
# BUILD, SOURCE.
set -eu
. "$(dirname "$0")/../../support/verdict.sh"
need cc make
work=$(mktemp -d "${TMPDIR:-/tmp}/rdmalloc-tarball.XXXXXX")
trap 'rm -rf "$work"' EXIT
charts=$BUILD/allocator/tools/study/report
[ -s "$charts/library.js" ] || [ -s "$SOURCE/allocator/tools/study/report/carried/library.js" ] ||
  skip "this build has no chart library to carry: install npm"
[ -s "$charts/library.js" ] || charts=$SOURCE/allocator/tools/study/report/carried
version=$(sed -n 's/^project(rdmalloc VERSION \([0-9.]*\).*/\1/p' "$SOURCE/CMakeLists.txt")
"$CMAKE" -D SOURCE="$SOURCE" -D VERSION="$version" -D CHARTS="$charts/library.js" -D LICENCES="$charts/licences.txt" \
  -D OUTPUT="$work" -P "$SOURCE/cmake/packaging/dist.cmake" > "$work/log" 2>&1 || {
  cat "$work/log"
  fail "no tarball was made"
}
tar -xzf "$work/rdmalloc-$version.tar.gz" -C "$work"
tree=$work/rdmalloc-$version
carried=allocator/tools/study/report/carried

if git -C "$SOURCE" rev-parse HEAD > /dev/null 2>&1; then
  echo "- it has what git has, and the chart library"
  git -C "$SOURCE" -c core.quotePath=off ls-files --cached --others --exclude-standard |
    while read -r file; do [ ! -e "$SOURCE/$file" ] || echo "$file"; done | sort > "$work/wanted"
  (cd "$tree" && find . -type f | sed 's|^./||' | grep -v "^$carried/" | sort) > "$work/found"
  diff "$work/wanted" "$work/found" || fail "the tarball has other files than the tree"
fi
cmp "$charts/library.js" "$tree/$carried/library.js" || fail "another chart library"

# configure TREE: without npm; its output goes to $work/log.
configure() {
  "$CMAKE" -S "$1" -B "$1/build" -DRDMALLOC_NPM= -DRDMALLOC_TESTS=OFF -DRDMALLOC_BENCH=OFF > "$work/log" 2>&1 || {
    cat "$work/log"
    fail "it does not configure"
  }
}
echo "- a build of it without npm has charts"
configure "$tree"
grep -q "have charts: their library came with the sources" "$work/log" || fail "it does not say that it has charts"
"$CMAKE" --build "$tree/build" --target rdmalloc_charts > /dev/null || fail "the charts do not build"
grep -rqF "$tree/$carried/library.js" "$tree/build/build.ninja" "$tree/build/allocator/tools/study/report" 2> /dev/null ||
  fail "the build does not use the chart library that it carries"

echo "- a build of the tree alone without npm says what it lacks"
rm -r "${tree:?}/$carried" "$tree/build"
configure "$tree"
grep -q "will have no charts: npm" "$work/log" || fail "it does not say what it lacks"
grep -q "source tarball" "$work/log" || fail "it does not say how to have charts"
