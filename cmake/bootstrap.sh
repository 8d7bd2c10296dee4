#!/bin/sh
# From a fresh Debian 12 to a build, the tests or the demo. Safe to repeat; the only set-up.
set -eu

usage() {
  cat << 'END'
usage: sh cmake/bootstrap.sh [--no-packages] build|test|demo
  build   installs what is missing of Debian's packages, and builds in build/
  test    the same, and passes the tests (without those labelled long)
  demo    the same, and runs two programs without and with rdmalloc, side by side
  --no-packages   installs nothing: you have seen to what is needed
END
}

# The build: compilers, the engine, topology, the command, the benchmarks, the backends' interfaces,
# intrusive trees, packed traces, a terminal's screen.
build_packages="cmake ninja-build g++ pkg-config libjemalloc-dev libhwloc-dev libcli11-dev
  nlohmann-json3-dev catch2 libbenchmark-dev libucx-dev liburing-dev libibverbs-dev libfabric-dev
  libboost-dev libncurses-dev libzstd-dev"
# The tests: what looks at the sources and at processes, ...
test_packages="clang-format clang libclang-rt-14-dev strace gdb libcap2-bin util-linux binutils procps
  man-db python3 bash"
# ... a terminal, ...
test_packages="$test_packages tmux"
# ... unmodified programs to run (redis-tools has the server's binary, without its service), ...
test_packages="$test_packages python3.11 libpython3.11-testsuite redis-tools sqlite3 git perl gzip
  bzip2 xz-utils zstd diffutils"
# ... an emulated machine with a soft-RoCE device, and what runs there (libopenmpi-dev builds a
# program; apt-get downloads the machine's kernel, and installs none), ...
test_packages="$test_packages qemu-system-x86 cpio kmod iproute2 rdma-core ibverbs-providers
  ibverbs-utils perftest rdmacm-utils openmpi-bin libopenmpi-dev mpich libmpich-dev libucx0"
# ... Fortran, whose MPI programs call MPI by other names (mpicxx and mpif90 come with the two MPIs), ...
test_packages="$test_packages gfortran"
# ... applications for MPI (Tachyon takes its MPI by which of the libraries it finds), ...
test_packages="$test_packages lammps hpcc tachyon-bin-nox libtachyon-openmpi-0 libtachyon-mpich-0"
# ... what draws studies' plots, and a browser that looks at their reports, ...
test_packages="$test_packages gnuplot-nox chromium"
# ... and the allocators that the benchmarks compare with.
test_packages="$test_packages libjemalloc2 libmimalloc2.0 libtcmalloc-minimal4"
# ... and what recording allocations is compared with.
test_packages="$test_packages heaptrack"

say() {
  echo "bootstrap: $*"
}

refuse() {
  say "$1" >&2
  exit 1
}

in_one_line() {
  echo "$@" | tr '\n' ' '
}

missing_of() {
  for package in "$@"; do
    state=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2> /dev/null) || state=none
    [ "$state" = installed ] || echo "$package"
  done
}

is_debian_12() {
  # shellcheck disable=SC1091  # not a file of ours
  [ -r /etc/os-release ] && command -v apt-get > /dev/null && command -v dpkg-query > /dev/null &&
    (. /etc/os-release && [ "${ID:-}" = debian ] && [ "${VERSION_ID:-}" = 12 ])
}

install_packages() {
  is_debian_12 || refuse "this is not Debian 12, which is all this script knows to set up. Install \
what these packages of Debian hold, and call it again with --no-packages: $(in_one_line "$@")"
  missing=$(missing_of "$@")
  [ -n "$missing" ] || return 0
  as_root=
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo > /dev/null ||
      refuse "you are not root and there is no sudo: have root install $(in_one_line "$missing")"
    as_root=sudo
  fi
  say "installing $(in_one_line "$missing")"
  $as_root apt-get -q update || refuse "apt-get update failed: see above"
  # env, because sudo drops the environment. No service may start: none of these has one.
  # shellcheck disable=SC2086  # lists of words
  $as_root env DEBIAN_FRONTEND=noninteractive \
    apt-get -q -y --no-install-recommends install $missing ||
    refuse "apt-get install failed: see above"
}

# Configures each time: what was missing at the last time may be there now.
build() {
  if [ -e build/CMakeCache.txt ]; then
    cmake -S . -B build
  else
    cmake -S . -B build -G Ninja
  fi
  cmake --build build
}

# What is labelled long takes more than a few minutes; ctest -L long runs it.
run_tests() {
  status=0
  ctest --test-dir build --output-on-failure --no-tests=error --timeout 600 -LE long \
    --output-junit tests.xml --test-output-size-passed 65536 || status=$?
  /usr/bin/python3 tests/skips.py build/tests.xml
  return $status
}

packages=yes
if [ "${1:-}" = --no-packages ]; then
  packages=no
  shift
fi
[ $# -eq 1 ] || { usage >&2; exit 2; }
goal=$1
cd "$(dirname "$0")/.."

wanted=$build_packages
case $goal in
  build) ;;
  test)
    wanted="$wanted $test_packages"
    # It fetches the chart library of studies' reports. Not Debian's where there is another already.
    command -v npm > /dev/null || wanted="$wanted npm"
    ;;
  demo) wanted="$wanted python3 sqlite3" ;;
  *) usage >&2; exit 2 ;;
esac
# shellcheck disable=SC2086  # a list of words
[ $packages = no ] || install_packages $wanted
build
case $goal in
  build) say "built: build/bin/rdmalloc, build/lib/librdmalloc.so" ;;
  test) run_tests ;;
  demo) /usr/bin/python3 cmake/demo.py build ;;
esac
