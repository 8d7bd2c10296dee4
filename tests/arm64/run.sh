#!/bin/sh
# Cross-builds for AArch64, and runs under qemu-user what needs no device.
#
#   run.sh SOURCES tests|lookup
#
# tests: the unit and stress tests; lookup: how many instructions a hit has. Skipped, with the
# reason, if the cross compiler, the arm64 packages or qemu are missing; bootstrap.sh installs them.
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
command -v qemu-aarch64-static > /dev/null || command -v qemu-aarch64 > /dev/null ||
  lacks "qemu-user (qemu-user-static)"
cmake --preset arm64
cmake --build --preset arm64
# Bounded, because qemu-user keeps a record of every reserved page: the library asks for a window of
# a TiB and gets a smaller one.
ulimit -v 8000000
ctest --preset arm64
