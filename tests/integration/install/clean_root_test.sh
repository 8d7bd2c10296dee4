#!/bin/sh
# Installs the packages with apt, as a user would, in a bare root file system of Debian 12: runs
# programs, builds against them, runs the README's MPI lines, upgrades, removes, and checks that
# nothing is left.
#
# The environment gives CPACK, BUILD and SOURCE; RDMALLOC_ROOT_TAR is of root.sh.
set -eu
. "$(dirname "$0")/root.sh"

pack() {
  "$CPACK" --config "$BUILD/CPackConfig.cmake" -G DEB -B "$work/packages" -D CPACK_PACKAGE_DIRECTORY="$work/packages" \
    "$@" > "$work/log" 2>&1 || { cat "$work/log"; fail "cpack"; }
  rm -rf "$work/packages/_CPack_Packages"
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
make_root bookworm
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
mkdir -p "$root/tmp/source/tests/integration" "$root/tmp/source/regcache" "$root/tmp/build/tests/mpi"
cp -r "$SOURCE/tests/support" "$SOURCE/tests/mpi" "$root/tmp/source/tests"
cp -r "$SOURCE/tests/integration/install" "$root/tmp/source/tests/integration"
cp -r "$SOURCE/include" "$SOURCE/README.md" "$root/tmp/source"
cp "$SOURCE/regcache/MPI.md" "$root/tmp/source/regcache"
inside "cd /tmp && PREFIX=/usr CMAKE=cmake GENERATOR='Unix Makefiles' CC=cc PKG_CONFIG=/usr/bin/pkg-config \
  sh /tmp/source/tests/integration/install/install_and_use.sh" || fail "building on the packages"

ln -s /usr/bin "$root/tmp/build/bin"
ln -s /usr/lib "$root/tmp/build/lib"
for mpi in ${RDMALLOC_ROOT_MPIS:-openmpi mpich}; do
  echo "- the lines that are documented for $mpi"
  case $mpi in
    openmpi) apt "install openmpi-bin libopenmpi-dev libucx0" ;;
    mpich) apt "install mpich libmpich-dev" ;;
  esac
  inside "cd /tmp/source && mpicc.$mpi -std=gnu11 -O2 -w -fno-builtin -pthread -I. tests/mpi/messages.c \
    -o /tmp/build/tests/mpi/messages.$mpi -ldl"
  inside "cd /tmp && RDMALLOC_BUILD=/tmp/build python3 -B /tmp/source/tests/mpi/recipes_test.py $mpi \
    /tmp/source/README.md:any /tmp/source/regcache/MPI.md:$mpi" ||
    fail "the lines for $mpi"
done
