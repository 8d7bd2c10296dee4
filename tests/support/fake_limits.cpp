#include "allocator/os/clock.h"
#include "allocator/os/cpu_clock.h"
#include "allocator/os/environment.h"
#include "allocator/os/huge_page_size.h"
#include "allocator/os/limits.h"
#include "tests/support/fake_state.h"

namespace rdmalloc {

void fake::compute(uint64_t ns) {
  const std::lock_guard<std::mutex> guard(state().mutex);
  state().cpu_ns += ns;
}

void fake::set_time(uint64_t ns) { __atomic_store_n(&state().time_ns, ns, __ATOMIC_RELAXED); }

namespace os {
namespace {

uint64_t cpu_ns() {
  const std::lock_guard<std::mutex> guard(fake::state().mutex);
  return fake::state().cpu_ns;
}

uint64_t time_ns(clockid_t clock) {
  const uint64_t set = __atomic_load_n(&fake::state().time_ns, __ATOMIC_RELAXED);
  return set != 0 ? set : read_clock_ns(clock);
}

}  // namespace

using fake::machine;

LockLimit lock_limit() { return machine().lock; }
uint64_t soft_lock_limit() { return machine().lock.soft; }
uint64_t address_space_left() { return machine().address_space_left; }
uint64_t total_memory() { return machine().total; }
uint64_t installed_memory() { return machine().total; }
size_t most_mappings() { return machine().most_mappings; }
uint64_t locked_memory() {
  __atomic_add_fetch(&machine().looks, 1, __ATOMIC_RELAXED);
  return fake::locked() + machine().locked_by_others;
}
uint64_t resident_memory() { return machine().resident; }
size_t transparent_huge_page_size() { return machine().huge_page; }
size_t hugetlb_page_size() { return machine().hugetlb_page; }
size_t default_hugetlb_page_size() { return machine().hugetlb_page; }
size_t next_hugetlb_page_size(size_t bytes) {
  return bytes < machine().hugetlb_page ? machine().hugetlb_page : 0;
}
uint64_t total_swap() { return machine().swap; }
Cgroup cgroup() { return {machine().group.limit, machine().group.id, machine().cgroup}; }
MemoryLeft memory_left() {
  __atomic_add_fetch(&machine().looks, 1, __ATOMIC_RELAXED);
  return {machine().to_touch, machine().available};
}

uint64_t now_ns() { return time_ns(CLOCK_MONOTONIC); }
uint64_t now_about_ns() { return time_ns(CLOCK_MONOTONIC_COARSE); }
uint64_t thread_cpu_ns() { return cpu_ns(); }
uint64_t process_cpu_ns() { return cpu_ns(); }

void for_each_environment(const char* prefix, void (*visit)(void* context, Text entry),
                          void* context) {
  for (const std::string& entry : fake::environment()) {
    const Text whole{entry.data(), entry.size()};
    if (whole.starts_with(text(prefix))) visit(context, whole);
  }
}

}  // namespace os
}  // namespace rdmalloc
