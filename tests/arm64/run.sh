#!/bin/sh
# Cross-builds for AArch64, and runs under qemu-user what needs no device.
#
#   run.sh SOURCES tests|lookup
#
# tests: the unit and stress tests, and a program under the preloaded library, on pages of 4, 16 and
# 64 KiB; lookup: how many instructions a hit has. Skipped, with the reason, if the cross compiler,
# the arm64 packages or qemu are missing; bootstrap.sh installs them.
set -eu
cd "$1"
. tests/support/verdict.sh
what=$2
sysroot=build/arm64-sysroot

lacks() { skip "no $1: type: sh cmake/bootstrap.sh test"; }
command -v aarch64-linux-gnu-g++ > /dev/null || lacks "cross compiler (g++-aarch64-linux-gnu)"
[ -r $sysroot/packages ] || lacks "arm64 packages in $sysroot"

if [ "$what" = lookup ]; then
  exec /usr/bin/python3 tests/arm64/lookup_code.py . $sysroot
fi
qemu=$(command -v qemu-aarch64-static || command -v qemu-aarch64) || lacks "qemu-user (qemu-user-static)"
cmake --preset arm64
cmake --build --preset arm64
# Bounded, because qemu-user keeps a record of every reserved page: the library asks for a window of
# a TiB and gets a smaller one.
ulimit -v 8000000
ctest --preset arm64
aarch64-linux-gnu-gcc --sysroot=$sysroot -O1 -pthread -o build/arm64/bin/preloaded tests/arm64/preloaded.c
# A processor without vector instructions, which qemu-user gets wrong on large pages (qemu_pages.c).
for page in 4096 16384 65536; do
  "$qemu" -cpu cortex-a72 -p $page -L $sysroot -E RDMALLOC_WARN=off -E LD_PRELOAD="$PWD/build/arm64/lib/librdmalloc.so" \
    build/arm64/bin/preloaded || fail "no malloc under the preloaded library, with pages of $page bytes"
done
