#!/bin/sh
# Builds the library, the command and the unit tests in a root file system of another release, with
# the packages that bootstrap.sh lists, and runs them there. Large, slow, and needs a mirror.
#
#   other_root_test.sh SUITE     bullseye (with old_glibc.sh at its end), bookworm, trixie, jammy, noble
#
# The environment gives SOURCE. bullseye and jammy need jemalloc's sources (jemalloc_tree.sh), bullseye
# also CLI11 as Debian 12 has it, and Ubuntu's releases its keys: installed, or out of Debian 13's
# package. RDMALLOC_ROOT_TAR is of root.sh.
# RDMALLOC_ROOT_CCACHE=FOLDER compiles there with ccache, and keeps what it compiled in the folder.
set -eu
. "$(dirname "$0")/root.sh"
. "$(dirname "$0")/jemalloc_tree.sh"
suite=$1

case $suite in
  jammy | noble)
    components=main,universe
    keys=$(sh "$(dirname "$0")/ubuntu_keys.sh" "$work")
    [ -n "$keys" ] || skip "no keys of Ubuntu's archive: install ubuntu-keyring"
    ;;
  *)
    components=main
    keys=/usr/share/keyrings/debian-archive-keyring.gpg
    ;;
esac
tree=${RDMALLOC_JEMALLOC_SOURCE:-}
if [ "$suite" = jammy ] || [ "$suite" = bullseye ]; then
  tree=$(jemalloc_tree)
  [ -n "$tree" ] || skip "$suite's jemalloc is 5.2, and no mirror has other sources: RDMALLOC_JEMALLOC_SOURCE names none"
fi
make_root "$suite" --components=$components --keyring=$keys

mkdir "$root/source"
(cd "$SOURCE" && git ls-files -z --cached --others --exclude-standard |
  xargs -0 sh -c 'for file; do [ ! -e "$file" ] || printf "%s\0" "$file"; done' sh |
  tar -c --null -T -) | tar -x -C "$root/source"
from=
if [ -n "$tree" ]; then
  cp -r "$tree" "$root/jemalloc"
  from=/jemalloc
fi

prefix=
if [ "$suite" = bullseye ]; then
  (cd "$work" && chmod 777 . && timeout 300 apt-get -q download libcli11-dev > "$work/log" 2>&1) &&
    dpkg -x "$work"/libcli11-dev_*.deb "$root/cli11" || skip "libcli11-dev could not be had"
  prefix=/cli11/usr
fi

in_source() {
  inside "cd /source; $1" RDMALLOC_JEMALLOC_SOURCE=$from CMAKE_PREFIX_PATH=$prefix \
    CCACHE_DIR=/ccache CCACHE_COMPILERCHECK=content
}
if [ -n "${RDMALLOC_ROOT_CCACHE:-}" ]; then
  mkdir -p "$RDMALLOC_ROOT_CCACHE" "$root/ccache"
  mount --bind "$RDMALLOC_ROOT_CCACHE" "$root/ccache"
  in_source "apt-get -q update && apt-get -q -y --no-install-recommends install ccache" > "$work/log" 2>&1 ||
    { tail -5 "$work/log"; skip "$suite's ccache could not be installed"; }
fi
echo "- the library and the command, by bootstrap.sh's demo"
in_source "apt-get -q update && sh cmake/bootstrap.sh demo" > "$work/log" 2>&1 || {
  tail -60 "$work/log"
  fail "bootstrap.sh demo on $suite"
}
in_source "\$(sed -n 's/^CMAKE_CXX_COMPILER:.*=//p' build/demo/CMakeCache.txt) --version | head -1; ldd --version | head -1; build/demo/bin/rdmalloc info | head -3"

if [ "${RDMALLOC_ROOT_UNIT_TESTS:-yes}" = yes ]; then
  echo "- the unit tests"
  in_source "apt-get -q -y --no-install-recommends install catch2 liburing-dev
    [ '$suite' != bullseye ] || export CC=clang-16 CXX=clang++-16
    cmake -S . -B build/unit -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS_RELEASE=-O1 \
      -DRDMALLOC_BENCH=OFF -DRDMALLOC_REPORT_CHARTS=OFF \
      ${from:+-DRDMALLOC_JEMALLOC_SOURCE=$from} && cmake --build build/unit --target unit_tests" > "$work/log" 2>&1 || {
    tail -60 "$work/log"
    fail "building the unit tests on $suite"
  }
  # The sources have no git here, and tests that check sources are not the subject.
  in_source "cd build/unit && ctest -L unit -LE 'static|long' --no-tests=error --output-on-failure --timeout 300" > "$work/log" 2>&1 || {
    tail -80 "$work/log"
    fail "unit tests on $suite"
  }
  tail -12 "$work/log"
fi

[ "$suite" != bullseye ] || . "$(dirname "$0")/old_glibc.sh"
