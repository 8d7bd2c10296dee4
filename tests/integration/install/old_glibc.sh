# shellcheck shell=sh
# Builds the library against the oldest glibc and kernel headers that a mirror has, Ubuntu 18.04's
# (2.27 and Linux 4.15; RHEL 8 has 2.28 and 4.18), by Debian 11's compiler, and runs programs there.
# Source it after Debian 11 has been set up in $root, with $from and in_source of
# other_root_test.sh.
keys=$(sh "$(dirname "$0")/ubuntu_keys.sh" "$work")
[ -n "$keys" ] || skip "no keys of Ubuntu's archive: install ubuntu-keyring"
timeout 600 mmdebstrap --quiet --variant=apt --keyring="$keys" --include=libc6-dev,g++ bionic \
  "$root/old" > "$work/log" 2>&1 || { tail -5 "$work/log"; skip "the mirror of bionic could not be had"; }
cp -r "$root/usr/include/boost" "$root/old/usr/include/"
cp "$root/usr/include/threads.h" "$root/old/usr/include/"  # since glibc 2.28

echo "- the library against Ubuntu 18.04's glibc, and there"
in_source 'flags=--gcc-toolchain=/usr
  headers="-nostdinc++ -isystem /usr/include/c++/10 -isystem /usr/include/x86_64-linux-gnu/c++/10"
  CC=clang-16 CXX=clang++-16 cmake -S . -B build/old -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo \
    -DCMAKE_SYSROOT=/old -DCMAKE_FIND_ROOT_PATH_MODE_PROGRAM=NEVER "-DCMAKE_C_FLAGS=$flags" \
    "-DCMAKE_CXX_FLAGS=$flags $headers" -DRDMALLOC_TESTS=OFF -DRDMALLOC_BENCH=OFF \
    -DRDMALLOC_REPORT_CHARTS=OFF -DRDMALLOC_JEMALLOC_SOURCE="$RDMALLOC_JEMALLOC_SOURCE" \
    -DRDMALLOC_VERBS_HEADERS=OFF -DRDMALLOC_UCX_HEADERS=OFF -DRDMALLOC_OFI_HEADERS=OFF
  cmake --build build/old --target rdmalloc rdmalloc_mpi rdmalloc_trace_recorder' > "$work/log" 2>&1 || {
  tail -60 "$work/log"
  fail "building against Ubuntu 18.04's glibc"
}

mkdir "$root/old/library"
cp "$root"/source/build/old/lib/librdmalloc.so.0 "$root/old/library/"
cat > "$root/old/throws.cpp" << 'END'
#include <cstdio>
#include <new>
#include <thread>
#include <vector>

extern "C" int rdm_owns(const void*) __attribute__((weak));

int main() {
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([] { for (int k = 0; k < 100000; ++k) delete[] new char[k % 5000]; });
  }
  for (std::thread& thread : threads) thread.join();
  const std::vector<char> some(100);
  if (rdm_owns == nullptr || rdm_owns(some.data()) == 0) return 1;
  volatile size_t too_much = size_t{1} << 60;
  try {
    delete[] new char[too_much];
    return 2;
  } catch (const std::bad_alloc&) {
  }
  std::set_new_handler([] { throw 7; });
  try {
    delete[] new char[too_much];
    return 3;
  } catch (int thrown) {
    return thrown == 7 ? 0 : 4;
  }
}
END
chroot "$root/old" g++ -std=c++14 -o /throws /throws.cpp -lpthread
mount -t proc proc "$root/old/proc"
chroot "$root/old" sh -c 'ldd --version | head -1; ldd /library/librdmalloc.so.0'
for program in "perl -e '@a = (1 .. 100000)'" "bash -c 'echo \$(ls / | wc -l)'" /throws; do
  timeout 60 chroot "$root/old" env -i PATH=/usr/bin:/bin LD_PRELOAD=/library/librdmalloc.so.0 sh -c "$program" ||
    fail "$program on Ubuntu 18.04"
done
! chroot "$root/old" /throws || fail "control: without the library the program finds that malloc is its"
