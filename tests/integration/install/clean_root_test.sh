#!/bin/sh
# Installs the packages with apt, as a user would, in a bare root file system of Debian 12: runs
# programs, builds against them, runs the README's MPI lines, upgrades, removes, and checks that
# nothing is left.
#
# The environment gives CPACK, BUILD and SOURCE. If RDMALLOC_ROOT_TAR names a file, it keeps the
# root file system for the next run.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
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

# Everything below runs in its own mount and PID namespaces: what is mounted or running there ends
# with this script.
[ "${1:-}" = inside ] || exec unshare --mount --pid --fork --kill-child sh "$0" inside
work=$(mktemp -d "${TMPDIR:-/tmp}/rdmalloc-root.XXXXXX")
trap 'umount -R "$work/root/proc" "$work/root/sys" "$work/root/dev" 2> /dev/null; rm -rf --one-file-system "$work"' EXIT
root=$work/root
mkdir "$root"

pack() {
  "$CPACK" --config "$BUILD/CPackConfig.cmake" -G DEB -B "$work/packages" -D CPACK_PACKAGE_DIRECTORY="$work/packages" \
    "$@" > "$work/log" 2>&1 || { cat "$work/log"; fail "cpack"; }
  rm -rf "$work/packages/_CPack_Packages"
}
inside() {
  chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 \
    DEBIAN_FRONTEND=noninteractive sh -euc "$1"
}
apt() {
  inside "apt-get -q -y --no-install-recommends $1" > "$work/log" 2>&1 || {
    tail -40 "$work/log"
    fail "apt-get $1"
  }
}
files() {
  (cd "$root" && find . -xdev \( -path ./proc -o -path ./sys -o -path ./dev -o -path ./tmp -o -path ./var/lib/apt -o \
    -path ./var/cache -o -path ./var/log -o -path ./var/lib/dpkg -o -name '*.pyc' -o -name __pycache__ \) \
    -prune -o -print | sort)
}

echo "- a root file system of Debian 12"
tar=${RDMALLOC_ROOT_TAR:-$work/root.tar}
if [ ! -s "$tar" ]; then
  timeout 900 mmdebstrap --quiet --variant=minbase bookworm "$tar" > "$work/log" 2>&1 || {
    cat "$work/log"
    skip "no mirror of Debian could be had"
  }
fi
tar -x -C "$root" --exclude='./dev/*' -f "$tar"
cp -L /etc/resolv.conf "$root/etc/resolv.conf" 2> /dev/null || :
mount -t proc proc "$root/proc"
mount -t sysfs sys "$root/sys"
mount --rbind /dev "$root/dev"
timeout 300 chroot "$root" apt-get -q update > "$work/log" 2>&1 || {
  tail -5 "$work/log"
  skip "no mirror of Debian could be had"
}
apt "install python3"
files > "$work/before"

echo "- apt installs the runtime package"
pack
mkdir "$root/tmp/packages"
cp "$work"/packages/*.deb "$root/tmp/packages"
apt "install /tmp/packages/rdmalloc_*.deb"
inside "rdmalloc run --report /tmp/report -- python3 -c pass"
grep -q '"held_bytes": [1-9]' "$root/tmp/report" || fail "rdmalloc run wrote no report"
inside "rdmalloc info > /dev/null && rdmalloc --version && LD_PRELOAD=librdmalloc.so.0 python3 -c pass"
[ "$(inside "dpkg -V rdmalloc")" = "" ] || fail "dpkg -V finds something"

echo "- and all of them"
apt "install /tmp/packages/rdmalloc*.deb"
inside "cd /tmp && rdmalloc trace record --output /tmp/trace -- python3 -c pass && rdmalloc trace info /tmp/trace" > "$work/log" 2>&1 || {
  cat "$work/log"
  fail "rdmalloc trace"
}

echo "- an upgrade"
rm "$work"/packages/*.deb
pack -D CPACK_DEBIAN_PACKAGE_RELEASE=2
cp "$work"/packages/*.deb "$root/tmp/packages"
apt "install /tmp/packages/rdmalloc*-2_*.deb"
for package in rdmalloc rdmalloc-dev rdmalloc-tools rdmalloc-mpi rdmalloc-dbgsym; do
  inside "dpkg-query -W -f '\${Status} \${Version}' $package" | grep -q "^install ok installed .*-2$" ||
    fail "$package was not upgraded"
done
inside "rdmalloc run -- python3 -c pass"

echo "- removed, they leave nothing"
packages=$(inside "dpkg-query -W -f '\${Package} ' 'rdmalloc*'")
apt "purge $packages"
apt "autoremove --purge"
files > "$work/after"
if ! diff "$work/before" "$work/after" > "$work/left"; then
  cat "$work/left"
  fail "this is left, or gone"
fi

echo "- find_package and pkg-config"
apt "install /tmp/packages/rdmalloc*-2_*.deb cmake make gcc g++ binutils pkg-config libc6-dev"
mkdir -p "$root/tmp/source/tests"
cp -r "$here" "$root/tmp/source/install"
inside "cd /tmp && PREFIX=/usr CMAKE=cmake GENERATOR='Unix Makefiles' CC=cc PKG_CONFIG=/usr/bin/pkg-config \
  sh /tmp/source/install/install_and_use.sh" || fail "building on the packages"

for mpi in ${RDMALLOC_ROOT_MPIS:-openmpi mpich}; do
  echo "- the README's lines for $mpi"
  case $mpi in
    openmpi) apt "install openmpi-bin libopenmpi-dev libucx0" ;;
    mpich) apt "install mpich libmpich-dev" ;;
  esac
  cp "$SOURCE/README.md" "$root/tmp/source"
  mkdir -p "$root/tmp/build/tests/mpi"
  cp -r "$SOURCE/tests/mpi" "$root/tmp/source/tests"
  cp -r "$SOURCE/include" "$root/tmp/source"
  ln -sfn /usr/bin "$root/tmp/build/bin"
  ln -sfn /usr/lib "$root/tmp/build/lib"
  inside "cd /tmp/source && mpicc.$mpi -std=gnu11 -O2 -w -fno-builtin -pthread -I. tests/mpi/messages.c \
    -o /tmp/build/tests/mpi/messages.$mpi -ldl"
  inside "cd /tmp && RDMALLOC_BUILD=/tmp/build python3 -B /tmp/source/tests/mpi/recipes_test.py /tmp/source/README.md $mpi" ||
    fail "the lines for $mpi"
done
