#!/bin/sh
# Builds the library, the command and the unit tests in a root file system of another release, with
# the packages that bootstrap.sh lists, and runs them there. Large, slow, and needs a mirror.
#
#   other_root_test.sh SUITE     bookworm, trixie, jammy, noble
#
# The environment gives SOURCE. RDMALLOC_JEMALLOC_SOURCE names jemalloc's source tree, which jammy
# needs. RDMALLOC_ROOT_TAR, if it names a file, keeps the root file system for the next time.
set -eu
suite=$1
skip() {
  echo "SKIPPED: $1"
  exit 77
}
fail() {
  echo "FAILED: $1"
  exit 1
}
[ "$(id -u)" = 0 ] || skip "only root may make a root file system"
command -v mmdebstrap > /dev/null || skip "no mmdebstrap: type: sh cmake/bootstrap.sh test"
if [ "$suite" = jammy ] && [ -z "${RDMALLOC_JEMALLOC_SOURCE:-}" ]; then
  skip "$suite's jemalloc is 5.2: RDMALLOC_JEMALLOC_SOURCE names no other"
fi
case $suite in
  jammy | noble)
    components=main,universe
    keys=/usr/share/keyrings/ubuntu-archive-keyring.gpg
    [ -r $keys ] || skip "no $keys: install ubuntu-archive-keyring"
    ;;
  *)
    components=main
    keys=/usr/share/keyrings/debian-archive-keyring.gpg
    ;;
esac
# What is mounted or running there ends with this script.
[ "${2:-}" = inside ] || exec unshare --mount --pid --fork --kill-child sh "$0" "$suite" inside

work=$(mktemp -d "${TMPDIR:-/tmp}/rdmalloc-root.XXXXXX")
trap 'umount -R "$work/root/proc" "$work/root/sys" "$work/root/dev" 2> /dev/null; rm -rf --one-file-system "$work"' EXIT
root=$work/root
mkdir "$root"
tar=${RDMALLOC_ROOT_TAR:-$work/root.tar}
if [ ! -s "$tar" ]; then
  timeout 1800 mmdebstrap --quiet --variant=minbase --components=$components --keyring=$keys "$suite" "$tar" > "$work/log" 2>&1 || {
    tail -5 "$work/log"
    skip "the mirror of $suite could not be had"
  }
fi
tar -x -C "$root" --exclude='./dev/*' -f "$tar"
cp -L /etc/resolv.conf "$root/etc/resolv.conf" 2> /dev/null || :
mount -t proc proc "$root/proc"
mount -t sysfs sys "$root/sys"
mount --rbind /dev "$root/dev"

mkdir "$root/source"
(cd "$SOURCE" && git ls-files -z --cached --others --exclude-standard |
  xargs -0 sh -c 'for file; do [ ! -e "$file" ] || printf "%s\0" "$file"; done' sh |
  tar -c --null -T -) | tar -x -C "$root/source"
from=
if [ -n "${RDMALLOC_JEMALLOC_SOURCE:-}" ]; then
  cp -r "$RDMALLOC_JEMALLOC_SOURCE" "$root/jemalloc"
  from=/jemalloc
fi

inside() {
  chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 \
    DEBIAN_FRONTEND=noninteractive RDMALLOC_JEMALLOC_SOURCE=$from sh -euc "cd /source; $1"
}
echo "- the library and the command, by bootstrap.sh's demo"
inside "apt-get -q update && sh cmake/bootstrap.sh demo" > "$work/log" 2>&1 || {
  tail -60 "$work/log"
  fail "bootstrap.sh demo on $suite"
}
inside "c++ --version | head -1; ldd --version | head -1; build/demo/bin/rdmalloc info | head -3"

if [ "${RDMALLOC_ROOT_UNIT_TESTS:-yes}" = yes ]; then
  echo "- the unit tests"
  inside "apt-get -q -y --no-install-recommends install catch2 liburing-dev
    cmake -S . -B build/unit -G Ninja -DRDMALLOC_BENCH=OFF -DRDMALLOC_REPORT_CHARTS=OFF \
      ${from:+-DRDMALLOC_JEMALLOC_SOURCE=$from} && cmake --build build/unit --target unit_tests" > "$work/log" 2>&1 || {
    tail -60 "$work/log"
    fail "building the unit tests on $suite"
  }
  # The sources have no git here, and tests that check sources are not the subject.
  inside "ctest --test-dir build/unit -L unit -LE 'static|long' --output-on-failure --timeout 300" > "$work/log" 2>&1 || {
    tail -80 "$work/log"
    fail "unit tests on $suite"
  }
  tail -12 "$work/log"
fi
