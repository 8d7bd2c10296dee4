#!/bin/sh
# Installs the build into a folder, moves that folder, and builds and runs programs against it in
# two ways: one that uses its malloc, and a backend with its test. The environment gives CMAKE,
# GENERATOR, BUILD, SOURCE, CC, PKG_CONFIG (see CMakeLists.txt), or instead of BUILD the PREFIX of
# an existing installation.
set -eu
here=$(dirname "$0")
. "$here/../../support/verdict.sh"
need "$CC"
work=$(mktemp -d "${TMPDIR:-/tmp}/rdmalloc-install.XXXXXX")
trap 'rm -rf "$work"' EXIT

if [ -n "${PREFIX:-}" ]; then
  prefix=$PREFIX
else
  # Installs only, does not build; everything must be built already.
  "$CMAKE" --install "$BUILD" --prefix "$work/first" > "$work/log" 2>&1 || {
    cat "$work/log"
    fail "cmake --install"
  }
  mv "$work/first" "$work/prefix"
  prefix=$work/prefix
fi
library=$(find "$prefix/lib" "$prefix/lib64" -name librdmalloc.so 2> /dev/null) || :
[ -n "$library" ] || fail "no librdmalloc.so below the prefix"
folder=$(dirname "$library")

soname=$(objdump -p "$library" | awk '$1 == "SONAME" { print $2 }')
[ -e "$folder/$soname" ] || fail "no $soname beside librdmalloc.so"
[ -e "$prefix/include/rdmalloc/rdmalloc.h" ] || fail "no header"

if [ -z "${PREFIX:-}" ]; then
  echo "- no path of the build"
  for path in "$BUILD" "$SOURCE" "$work/first"; do
    if found=$(grep -rlF "$path" "$prefix"); then fail "$path is named in: $found"; fi
  done
fi
objdump -p "$library" | grep -E 'RPATH|RUNPATH' && fail "the library has a run path"

echo "- find_package"
build_project() {
  "$CMAKE" -S "$here/$1" -B "$work/$1" -G "$GENERATOR" \
    -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_COMPILER="$CC" && "$CMAKE" --build "$work/$1"
}
for project in consumer backend_example; do
  build_project $project > "$work/log" 2>&1 || {
    cat "$work/log"
    fail "$project does not build"
  }
done
"$work/consumer/consumer" "$soname"

echo "- a backend outside the tree"
RDMALLOC_WARN=off "$work/backend_example/backend_example" || fail "the example of a backend"

echo "- pkg-config"
if [ -n "$PKG_CONFIG" ] && [ -x "$PKG_CONFIG" ]; then
  export PKG_CONFIG_PATH="$folder/pkgconfig"
  # shellcheck disable=SC2046  # a list of flags
  "$CC" -o "$work/by-pkg-config" "$here/consumer/consumer.c" \
    $("$PKG_CONFIG" --cflags --libs rdmalloc) || fail "pkg-config's flags do not build it"
  LD_LIBRARY_PATH=$folder "$work/by-pkg-config" "$soname"
  # shellcheck disable=SC2046
  "$CC" -pthread -o "$work/backend-by-pkg-config" "$here"/backend_example/*.c \
    $("$PKG_CONFIG" --cflags --libs rdmalloc) || fail "pkg-config's flags do not build a backend"
  RDMALLOC_WARN=off LD_LIBRARY_PATH=$folder "$work/backend-by-pkg-config" ||
    fail "the example of a backend, by pkg-config"
  version=$("$PKG_CONFIG" --modversion rdmalloc)
  [ -e "$folder/librdmalloc.so.$version" ] || fail "pkg-config says version $version"
else
  echo "  left out: pkg-config is not installed"
fi

echo "- the command"
if [ -x "$prefix/bin/rdmalloc" ]; then
  "$prefix/bin/rdmalloc" run --report "$work/report" -- /bin/true
  grep -q '"held_bytes": [1-9]' "$work/report" || fail "rdmalloc run wrote no report"
else
  echo "  left out: it is not built"
fi
