// Memory that libc unmaps or drops through internal calls, which cannot be interposed: the stack of
// a thread that ends, and the objects that dlclose() unloads.
//
// Each thread created through our pthread_create() or thrd_create() reports its stack when it ends,
// in whatever way: in the last round of destructors of thread-specific data, after which libc drops
// the stack. If a destructor of another key registers stack memory in that round after ours, that
// is missed. So are threads that libc itself starts (SIGEV_THREAD), and threads made with clone(),
// whose creator unmaps their stacks.
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdlib.h>
#include <threads.h>

#include "regcache/foreign/monitor/interposed.h"

#define RDM_INTERPOSED extern "C" [[gnu::visibility("default")]]

namespace rdmalloc::interposed {
namespace {

using PthreadRun = void*(void*);
using ThrdRun = int(void*);

struct {
  Next<int(pthread_t*, const pthread_attr_t*, PthreadRun*, void*)> pthread_create{"pthread_create"};
  Next<int(thrd_t*, ThrdRun*, void*)> thrd_create{"thrd_create"};
  Next<int(void*)> dlclose{"dlclose"};
} constinit next;

pthread_key_t end_of_thread;
std::atomic<bool> has_key{false};

struct Stack {
  uintptr_t base = 0;
  size_t length = 0;
};
thread_local constinit Stack stack;

bool is_anything_cached() {
  return changes.sink() != nullptr && changes.counts().may_have(0, UINTPTR_MAX);
}

// libc allocates to answer this, so it is asked in the first round, where malloc still works.
void find_stack() {
  pthread_attr_t attributes;
  void* base = nullptr;
  if (stack.length != 0 || pthread_getattr_np(pthread_self(), &attributes) != 0) return;
  if (pthread_attr_getstack(&attributes, &base, &stack.length) == 0) {
    stack.base = reinterpret_cast<uintptr_t>(base);
  }
  pthread_attr_destroy(&attributes);
}

void at_thread_end(void* rounds) {
  const auto round = reinterpret_cast<uintptr_t>(rounds);
  if (is_anything_cached()) find_stack();
  if (round < PTHREAD_DESTRUCTOR_ITERATIONS) {
    pthread_setspecific(end_of_thread, reinterpret_cast<void*>(round + 1));
    return;
  }
  const Change change(reinterpret_cast<void*>(stack.base), stack.length);
}

// This thread may have been given the stack of a thread that just ended.
void begin_thread() {
  if (!has_key.load(std::memory_order_acquire)) return;
  pthread_setspecific(end_of_thread, reinterpret_cast<void*>(1));
  constexpr size_t kNear = size_t{8} << 20;
  const auto here = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
  changes.catch_up(here - kNear, here);
}

template <typename Run>
struct Start {
  Run* run;
  void* argument;
};

template <typename Run>
Start<Run> take(void* raw) {
  const Start<Run> start = *static_cast<Start<Run>*>(raw);
  free(raw);
  begin_thread();
  return start;
}

void* run_pthread(void* raw) {
  const Start<PthreadRun> start = take<PthreadRun>(raw);
  return start.run(start.argument);
}

int run_thrd(void* raw) {
  const Start<ThrdRun> start = take<ThrdRun>(raw);
  return start.run(start.argument);
}

template <typename Run>
Start<Run>* make_start(Run* run, void* argument) {
  probe.note(argument);
  auto* const start = static_cast<Start<Run>*>(malloc(sizeof(Start<Run>)));
  if (start != nullptr) *start = {run, argument};
  return start;
}

template <typename Visit>
void for_each_unloadable(Visit visit) {
  struct Walk {
    Visit visit;
    bool is_program = true;  // the first object is the program
  } walk{visit};
  const auto look = [](dl_phdr_info* object, size_t, void* raw) {
    auto* const self = static_cast<Walk*>(raw);
    if (self->is_program) {
      self->is_program = false;
      return 0;
    }
    uintptr_t base = UINTPTR_MAX;
    uintptr_t end = 0;
    for (int i = 0; i < object->dlpi_phnum; ++i) {
      const ElfW(Phdr)& part = object->dlpi_phdr[i];
      if (part.p_type != PT_LOAD) continue;
      const uintptr_t from = object->dlpi_addr + part.p_vaddr;
      if (from < base) base = from;
      if (from + part.p_memsz > end) end = from + part.p_memsz;
    }
    if (base < end) self->visit(base, end);
    return 0;
  };
  dl_iterate_phdr(look, &walk);
}

}  // namespace

void find_next_thread_functions() {
  next.pthread_create.find();
  next.thrd_create.find();
  next.dlclose.find();
  has_key.store(pthread_key_create(&end_of_thread, at_thread_end) == 0, std::memory_order_release);
}

}  // namespace rdmalloc::interposed

using namespace rdmalloc::interposed;  // NOLINT(google-build-using-namespace)
using rdmalloc::Change;
using rdmalloc::changes;

RDM_INTERPOSED int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                                  void* (*run)(void*), void* argument) noexcept {
  auto* const call = next.pthread_create.find();
  auto* const start = call == nullptr ? nullptr : make_start<PthreadRun>(run, argument);
  if (start == nullptr) return EAGAIN;
  const int error = call(thread, attributes, run_pthread, start);
  if (error != 0) free(start);
  return error;
}

RDM_INTERPOSED int thrd_create(thrd_t* thread, thrd_start_t run, void* argument) {
  auto* const call = next.thrd_create.find();
  auto* const start = call == nullptr ? nullptr : make_start<ThrdRun>(run, argument);
  if (start == nullptr) return thrd_nomem;
  const int result = call(thread, run_thrd, start);
  if (result != thrd_success) free(start);
  return result;
}

// libc decides which objects are unloaded, so registrations in any that might be are given up.
RDM_INTERPOSED int dlclose(void* object) noexcept {
  probe.note(object);
  auto* const call = next.dlclose.find();
  if (call == nullptr) return -1;
  if (changes.sink() == nullptr) return call(object);
  uintptr_t base = UINTPTR_MAX;
  uintptr_t end = 0;
  for_each_unloadable([&](uintptr_t from, uintptr_t to) {
    if (from < base) base = from;
    if (to > end) end = to;
  });
  const Change change(reinterpret_cast<void*>(base), base < end ? end - base : 0,
                      Change::kAnnounced);
  for_each_unloadable([](uintptr_t from, uintptr_t to) { changes.tell(from, to); });
  return call(object);
}

namespace rdmalloc::interposed {
namespace {

template <typename Function>
Function* as(const void* found) {
  return reinterpret_cast<Function*>(const_cast<void*>(found));
}

void call_pthread_create(const void* found, void* page) {
  pthread_t thread{};
  const auto run = [](void*) -> void* { return nullptr; };
  if (as<decltype(::pthread_create)>(found)(&thread, nullptr, run, page) == 0) {
    pthread_join(thread, nullptr);
  }
}

void call_dlclose(const void* found, void*) {
  void* const program = dlopen(nullptr, RTLD_LAZY);
  probe.expect(program);
  if (program != nullptr) as<int(void*)>(found)(program);
}

const Entry kEntries[] = {
    {"pthread_create", reinterpret_cast<const void*>(&::pthread_create), false,
     call_pthread_create},
    {"thrd_create", reinterpret_cast<const void*>(&::thrd_create), false, nullptr},
    {"dlclose", reinterpret_cast<const void*>(&::dlclose), false, call_dlclose},
};

}  // namespace

const Entry* thread_entry(size_t index) {
  return index < sizeof kEntries / sizeof *kEntries ? &kEntries[index] : nullptr;
}

}  // namespace rdmalloc::interposed
