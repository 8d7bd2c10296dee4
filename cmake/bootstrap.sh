#!/bin/sh
# From a fresh Debian or Ubuntu to a build, the tests or the demo. Safe to repeat; the only set-up. On
# Debian 12 it has all that the tests want; on the others what of it they have.
set -eu

usage() {
  cat << 'END'
usage: sh cmake/bootstrap.sh [--no-packages] build|test|demo|package
  build   installs what is missing of Debian's packages, and builds in build/
  test    the same, and passes the tests (without those labelled long)
  demo    builds the library and the command alone, in build/demo, and runs two programs without and
          with rdmalloc, side by side
  package builds the library and the command alone, and makes packages of them in build/package/packages
  --no-packages   installs nothing: you have seen to what is needed
RDMALLOC_JEMALLOC_SOURCE=DIR in the environment: makes the engine from these sources of jemalloc 5.3.0,
where the system has no fitting libjemalloc-dev
END
}

# The library and the command: compilers, the engine, topology, the backends' interfaces, intrusive
# trees, packed traces, a terminal's screen.
library_packages="cmake ninja-build g++ pkg-config libjemalloc-dev libhwloc-dev libcli11-dev
  nlohmann-json3-dev libucx-dev libibverbs-dev libfabric-dev libboost-dev libncurses-dev libzstd-dev"
# The build of all: tests and benchmarks, too.
build_packages="$library_packages catch2 libbenchmark-dev liburing-dev"
# The demo's two programs, and what runs them.
demo_packages="python3 sqlite3"
# The tests: what keeps the sanitizers' builds, what looks at the sources and at processes, ...
test_packages="ccache clang-format clang libclang-rt-14-dev strace gdb libcap2-bin util-linux binutils procps
  man-db python3 bash"
# ... a terminal, ...
test_packages="$test_packages tmux"
# ... unmodified programs to run (redis-tools has the server's binary, without its service), ...
test_packages="$test_packages python3.11 libpython3.11-testsuite redis-tools sqlite3 git perl gzip
  bzip2 xz-utils zstd diffutils"
# ... an emulated machine with a soft-RoCE device, and what runs there (libopenmpi-dev builds a
# program; apt-get downloads the machine's kernel, and installs none), ...
test_packages="$test_packages qemu-system-x86 qemu-system-arm cpio kmod iproute2 rdma-core ibverbs-providers
  ibverbs-utils perftest rdmacm-utils openmpi-bin libopenmpi-dev mpich libmpich-dev libucx0 ucx-utils
  libfabric-bin"
# ... Fortran, whose MPI programs call MPI by other names (mpicxx and mpif90 come with the two MPIs), ...
test_packages="$test_packages gfortran"
# ... applications for MPI (Tachyon takes its MPI by which of the libraries it finds), ...
test_packages="$test_packages lammps hpcc tachyon-bin-nox libtachyon-openmpi-0 libtachyon-mpich-0"
# ... packages, and what they are made and looked at with, ...
test_packages="$test_packages dpkg-dev rpm mmdebstrap abigail-tools lua5.4 tcl"
# ... what draws studies' plots, and a browser that looks at their reports, ...
test_packages="$test_packages gnuplot-nox chromium"
# ... a cross compiler for AArch64, and what runs its programs (their packages are unpacked in the
# build's folder: aarch64_sysroot.sh), ...
test_packages="$test_packages g++-aarch64-linux-gnu qemu-user-static"
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

# "debian 12", "ubuntu 24.04"; "fedora 41" or nothing where it is no relative of Debian's.
find_system() {
  # shellcheck disable=SC1091  # not a file of ours
  [ ! -r /etc/os-release ] || (. /etc/os-release && echo "${ID:-unknown} ${VERSION_ID:-}")
}

# What other distributions call the library's packages. Their jemalloc has no static PIC archive.
refuse_system() {
  names="what these packages of Debian hold: $(in_one_line "$@")"
  engine="the sources of jemalloc 5.3.0 (RDMALLOC_JEMALLOC_SOURCE=DIR)"
  if command -v dnf > /dev/null; then
    names="them by: dnf install cmake ninja-build make gcc-c++ pkgconf-pkg-config hwloc-devel cli11-devel \
json-devel ucx-devel rdma-core-devel libfabric-devel boost-devel ncurses-devel libzstd-devel
bootstrap: for the tests also: catch-devel google-benchmark-devel liburing-devel
bootstrap: and unpack $engine"
  elif command -v zypper > /dev/null; then
    names="them by: zypper install cmake ninja make gcc-c++ pkgconf-pkg-config hwloc-devel cli11-devel \
nlohmann_json-devel libucp-devel libucs-devel libuct-devel rdma-core-devel libfabric-devel \
libboost_headers-devel ncurses-devel libzstd-devel
bootstrap: for the tests also: Catch2-devel benchmark-devel liburing-devel
bootstrap: and unpack $engine"
  fi
  refuse "packages are installed by this script on Debian 12 and 13, Ubuntu 22.04 and 24.04 alone, and this is \
${system:-another system}. Install $names
bootstrap: then call it again with --no-packages"
}

# Those of the names that this release has; says which it has not. The library's own are not optional.
offered_of() {
  for package in "$@"; do
    case " $(in_one_line "$library_packages") " in
      *" $package "*) echo "$package"; continue ;;
    esac
    if apt-cache show "$package" > /dev/null 2>&1; then
      echo "$package"
    else
      say "$system has no $package: tests that need it are skipped" >&2
    fi
  done
}

install_packages() {
  if ! command -v apt-get > /dev/null || ! command -v dpkg-query > /dev/null; then
    refuse_system "$@"
  fi
  case $system in
    "debian 12" | "debian 13" | "ubuntu 24.04") ;;
    "debian 11" | "ubuntu 22.04")
      [ -n "${RDMALLOC_JEMALLOC_SOURCE:-}" ] || refuse "jemalloc of $system is 5.2, and 5.3.0 is needed: unpack \
its sources, and call this again with RDMALLOC_JEMALLOC_SOURCE=DIR in the environment"
      ;;
    *) refuse_system "$@" ;;
  esac
  if [ "$system" = "debian 11" ]; then
    [ -n "${CMAKE_PREFIX_PATH:-}" ] || refuse "$system has no CLI11: unpack libcli11-dev of a newer release (dpkg -x \
FILE DIR), and call this again with CMAKE_PREFIX_PATH=DIR/usr in the environment"
    # shellcheck disable=SC2046  # a list of words
    set -- $(in_one_line "$@" clang-16 | sed 's/ libcli11-dev / /')
  fi
  if [ -n "${RDMALLOC_JEMALLOC_SOURCE:-}" ]; then
    # shellcheck disable=SC2046  # a list of words
    set -- $(in_one_line "$@" make | sed 's/ libjemalloc-dev / /')
  fi
  missing=$(missing_of "$@")
  [ -n "$missing" ] || return 0
  as_root=
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo > /dev/null ||
      refuse "you are not root and there is no sudo: have root install $(in_one_line "$missing")"
    as_root=sudo
  fi
  $as_root apt-get -q update || refuse "apt-get update failed: see above"
  # shellcheck disable=SC2086  # a list of words
  [ "$system" = "debian 12" ] || missing=$(offered_of $missing)
  [ -n "$missing" ] || return 0
  say "installing $(in_one_line "$missing")"
  # env, because sudo drops the environment. No service may start: none of these has one.
  # shellcheck disable=SC2086  # lists of words
  $as_root env DEBIAN_FRONTEND=noninteractive \
    apt-get -q -y --no-install-recommends install $missing ||
    refuse "apt-get install failed: see above"
}

from_source() {
  [ -z "${RDMALLOC_JEMALLOC_SOURCE:-}" ] || echo "-DRDMALLOC_JEMALLOC_SOURCE=$RDMALLOC_JEMALLOC_SOURCE"
}

# Without it what builds for AArch64 is skipped.
fetch_arm64() {
  [ "$system" = "debian 12" ] || return 0
  sh cmake/aarch64_sysroot.sh build/arm64-sysroot > build/arm64-sysroot.log 2>&1 ||
    say "the arm64 packages did not come, see build/arm64-sysroot.log; tests of AArch64 are skipped"
}

# configure_library NAME OPTIONS...: for the library and the command alone, as the preset of that name
# does, which is known to CMake from 3.25 on.
configure_library() {
  name=$1
  shift
  # shellcheck disable=SC2046  # one word or none
  cmake -S . -B "build/$name" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DRDMALLOC_TESTS=OFF \
    -DRDMALLOC_BENCH=OFF "$@" $(from_source)
}

# Without debug information, which takes a third of the time to compile.
build_for_demo() {
  configure_library demo -DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=24 \
    -DRDMALLOC_REPORT_CHARTS=OFF \
    "-DCMAKE_C_FLAGS_RELWITHDEBINFO=-O2 -DNDEBUG" "-DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O2 -DNDEBUG"
  cmake --build build/demo --target rdmalloc_engine_proof
}

make_packages() {
  configure_library package -DCMAKE_INSTALL_PREFIX=/usr
  cmake --build build/package
  (cd build/package && cpack)
}

# build OPTIONS... Configures each time: what was missing at the last time may be there now.
build() {
  # shellcheck disable=SC2046  # one word or none
  if [ -e build/CMakeCache.txt ]; then
    cmake -S . -B build "$@" $(from_source)
  else
    cmake -S . -B build -G Ninja "$@" $(from_source)
  fi
  cmake --build build
}

# What is labelled long takes more than a few minutes; ctest -L long runs it. One test more at a time
# than there are processors, because many wait; not more than four, which would want more memory than
# a small machine has.
run_tests() {
  status=0
  jobs=$(($(nproc) + 1))
  [ "$jobs" -le 4 ] || jobs=4
  # Since CMake 3.21.
  junit=
  ! ctest --help | grep -q -e --output-junit || junit="--output-junit tests.xml"
  # shellcheck disable=SC2086  # two words or none
  (cd build && ctest -j "$jobs" --output-on-failure --no-tests=error --timeout 600 -LE long \
    $junit --test-output-size-passed 65536) || status=$?
  [ -z "$junit" ] || /usr/bin/python3 tests/summary.py build/tests.xml
  return $status
}

packages=yes
system=$(find_system)
# Its GCC is 10. Its clang 16 takes libstdc++ and the linker from there.
[ "$system" != "debian 11" ] || export CC="${CC:-clang-16}" CXX="${CXX:-clang++-16}"
if [ "${1:-}" = --no-packages ]; then
  packages=no
  shift
fi
[ $# -eq 1 ] || { usage >&2; exit 2; }
goal=$1
cd "$(dirname "$0")/.."

case $goal in
  build) wanted=$build_packages ;;
  test)
    wanted="$build_packages $test_packages"
    # It fetches the chart library of studies' reports. Not Debian's where there is another already.
    command -v npm > /dev/null || wanted="$wanted npm"
    ;;
  demo) wanted="$library_packages $demo_packages" ;;
  package) wanted="$library_packages dpkg-dev" ;;
  *) usage >&2; exit 2 ;;
esac
# shellcheck disable=SC2086  # a list of words
[ $packages = no ] || install_packages $wanted
case $goal in
  build) build && say "built: build/bin/rdmalloc, build/lib/librdmalloc.so" ;;
  test)
    build -DRDMALLOC_WERROR=ON
    [ $packages = no ] || fetch_arm64
    run_tests
    ;;
  package) make_packages ;;
  demo) build_for_demo && /usr/bin/python3 cmake/demo.py build/demo ;;
esac
