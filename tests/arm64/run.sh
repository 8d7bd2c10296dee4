#!/bin/sh
# Cross-builds for AArch64, and runs it: under qemu-user what needs no device, and all of it in an
# emulated machine with a kernel of its own.
#
#   run.sh SOURCES tests|lookup
#   run.sh SOURCES machine [KERNEL]
#
# tests: the unit and stress tests, and a program under the preloaded library, on pages of 4, 16 and
# 64 KiB. lookup: how many instructions a hit has. machine: unit, stress and integration tests, and
# those of the guest with its soft-RoCE device, on Debian's kernel, or one with larger pages: 6.12-16k
# or 64k (tests/guest/run). Skipped, with the reason, if the cross compiler, the arm64 packages or QEMU
# are missing; bootstrap.sh installs them.
set -eu
cd "$1"
. tests/support/verdict.sh
what=$2
kernel=${3:-}
sysroot=build/arm64-sysroot

lacks() { skip "no $1: type: sh cmake/bootstrap.sh test"; }
command -v aarch64-linux-gnu-g++ > /dev/null || lacks "cross compiler (g++-aarch64-linux-gnu)"
[ -r $sysroot/packages ] || lacks "arm64 packages in $sysroot"

build() {
  cmake --preset arm64 > build/arm64-configure.log 2>&1 ||
    { cat build/arm64-configure.log; fail "the cross build cannot be configured"; }
  # Leaves the processors to tests that are bounded in time.
  nice cmake --build "$@" || fail "the cross build failed"
}

run_in_machine() {
  command -v qemu-system-aarch64 > /dev/null || lacks "AArch64 machine (qemu-system-arm)"
  build build/arm64
  # shellcheck disable=SC2086  # an option and its value, or nothing
  set -- --machine arm64 ${kernel:+--kernel $kernel} --timeout 10000
  problem=
  tests/guest/run "$@" --ctest "-j2 -L unit|stress|integration -LE long|sanitizer" suite || problem=" suite"
  tests/guest/run "$@" all || problem="$problem guest"
  [ -z "$problem" ] || fail "in the machine not all passed:$problem"
}

run_under_qemu_user() {
  qemu=$(command -v qemu-aarch64-static || command -v qemu-aarch64) ||
    lacks "qemu-user (qemu-user-static)"
  build --preset arm64
  # Bounded, because qemu-user keeps a record of every reserved page: the library asks for a window of
  # a TiB and gets a smaller one.
  ulimit -v 12000000
  problem=
  ctest --preset arm64 || problem=" tests"
  aarch64-linux-gnu-gcc --sysroot=$sysroot -O1 -pthread -o build/arm64/bin/preloaded tests/arm64/preloaded.c
  # A processor without vector instructions, which qemu-user gets wrong on large pages (qemu_pages.c).
  for page in 4096 16384 65536; do
    "$qemu" -cpu cortex-a72 -p $page -L $sysroot -E RDMALLOC_WARN=off \
      -E LD_PRELOAD="$PWD/build/arm64/lib/librdmalloc.so" build/arm64/bin/preloaded ||
      problem="$problem preloaded-with-pages-of-$page"
  done
  [ -z "$problem" ] || fail "under qemu-user not all passed:$problem"
}

case $what in
  lookup) exec /usr/bin/python3 tests/arm64/lookup_code.py . $sysroot ;;
  tests) run_under_qemu_user ;;
  machine) run_in_machine ;;
esac
