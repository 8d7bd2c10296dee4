#include "allocator/os/confinement.h"

#include <linux/seccomp.h>
#include <sys/prctl.h>

#include "allocator/os/keep_errno.h"
#include "allocator/os/memory.h"
#include "allocator/os/memory_calls.h"
#include "allocator/os/newer_headers.h"
#include "allocator/os/processor_lock.h"
#include "allocator/os/topology.h"

namespace rdmalloc::os {
namespace {

constinit RememberedLimits remembered;
constinit std::atomic<bool> is_ignoring{false};
constinit std::atomic<bool> is_asked{false};
constinit std::atomic<size_t> opened_bytes{0};

// The page that locked ranges are made from. Null: a thread is using it, or there is none.
constinit std::atomic<void*> seed{nullptr};

void* map_open(void* at, size_t bytes, int flags) {
  return mmap(at, bytes, PROT_READ | PROT_WRITE,
              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | flags, -1, 0);
}

void make_seed() {
  void* const page = map_open(nullptr, page_size(), 0);
  if (page == MAP_FAILED) return;
  if (system_call(SYS_mlock2, word(page), page_size(), MLOCK_ONFAULT) == 0) {
    seed.store(page, std::memory_order_release);
  } else {
    (void)munmap(page, page_size());
  }
}

// Grows the seed by a second page, at the range. False: the range is unchanged, or lost.
bool plant(void** page, void* address, size_t bytes) {
  void* const two = mremap(*page, page_size(), 2 * page_size(), MREMAP_MAYMOVE, nullptr);
  if (two == MAP_FAILED) return false;
  *page = two;
  void* const second = static_cast<char*>(two) + page_size();
  constexpr int kThere = MREMAP_MAYMOVE | MREMAP_FIXED;
  if (mremap(second, page_size(), bytes, kThere, address) == address) return true;
  (void)munmap(second, page_size());
  return false;
}

}  // namespace

void confine() {
  const KeepErrno keep;
  if (is_confined()) return;
  if (!is_asked.exchange(true, std::memory_order_acq_rel)) {
    remembered = {lock_limit(), memory_left(), cgroup(), most_mappings()};
    remember_nodes();
    opened_bytes.store(0, std::memory_order_relaxed);
    if (seed.load(std::memory_order_relaxed) == nullptr) make_seed();
    stop_sequences();
  }
  confined.store(true, std::memory_order_release);
}

void ignore_filters() { is_ignoring.store(true, std::memory_order_relaxed); }

bool installs_filter(long number, long a, long b) {
  if (is_ignoring.load(std::memory_order_relaxed)) return false;
  if (number == SYS_prctl) return a == PR_SET_SECCOMP && b != SECCOMP_MODE_DISABLED;
  return number == SYS_seccomp && (a == SECCOMP_SET_MODE_STRICT || a == SECCOMP_SET_MODE_FILTER);
}

bool installs_filter_by_prctl(long option, long a) { return installs_filter(SYS_prctl, option, a); }

long install_filter(long number, long a, long b, long c, long d, long e) {
  const bool was_confined = is_confined();
  confine();
  const long answer = system_call(number, a, b, c, d, e);
  // A positive answer is the number of a thread that could not get the filter.
  if (answer != 0 && !was_confined) {
    confined.store(false, std::memory_order_relaxed);
    is_asked.store(false, std::memory_order_relaxed);
  }
  return libc_answer(answer);
}

int control_process(long option, long a, long b, long c, long d) {
  if (installs_filter_by_prctl(option, a)) {
    return static_cast<int>(install_filter(SYS_prctl, option, a, b, c, d));
  }
  return static_cast<int>(libc_answer(system_call(SYS_prctl, option, a, b, c, d)));
}

const RememberedLimits& remembered_limits() { return remembered; }

uint64_t still(uint64_t available) {
  const size_t taken = opened_bytes.load(std::memory_order_relaxed);
  if (available == kNoLimit) return available;
  return available > taken ? available - taken : 0;
}

void note_opened(size_t bytes) { opened_bytes.fetch_add(bytes, std::memory_order_relaxed); }

void note_closed(size_t bytes) {
  size_t sum = opened_bytes.load(std::memory_order_relaxed);
  while (!opened_bytes.compare_exchange_weak(sum, sum > bytes ? sum - bytes : 0)) {
  }
}

bool lock_by_moving(void* address, size_t bytes) {
  const KeepErrno keep;
  void* page = seed.exchange(nullptr, std::memory_order_acquire);
  if (page == nullptr) return false;
  const bool is_locked = plant(&page, address, bytes);
  seed.store(page, std::memory_order_release);
  // The refusal may have taken the range away.
  if (!is_locked) (void)map_open(address, bytes, MAP_FIXED_NOREPLACE);
  return is_locked;
}

void forget_locked_page() { seed.store(nullptr, std::memory_order_relaxed); }

}  // namespace rdmalloc::os
