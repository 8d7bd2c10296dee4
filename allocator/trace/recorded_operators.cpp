// C++'s operators are recorded too, because an allocator that defines its own does not call the
// exported malloc from them. libstdc++'s operators call malloc and free, which are ours here and
// already record the call; what the thread has recorded afterwards shows which case it is.
//
// C++ exceptions pass through these functions: they have nothing to undo.
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <initializer_list>

#include <atomic>

#include "allocator/os/standard_error.h"
#include "allocator/trace/next_malloc.h"
#include "allocator/trace/recorder.h"

#define EXPORT [[gnu::visibility("default")]]

using namespace rdmalloc::trace;

namespace {

// The next operator of this name. A C program may load C++ later, by dlopen: then a C++ library is
// loaded, but ld.so does not search it for names.
void* find_operator(const char* name) {
  if (void* found = dlsym(RTLD_NEXT, name)) return found;
  for (const char* library : {"libstdc++.so.6", "libc++.so.1", "libc++abi.so.1"}) {
    void* loaded = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
    if (void* found = loaded == nullptr ? nullptr : dlsym(loaded, name)) return found;
  }
  constexpr char kSorry[] = "rdmalloc trace: a C++ operator is called, and no library has it\n";
  rdmalloc::os::write_standard_error(kSorry, sizeof kSorry - 1);
  abort();
}

// Whether it is libstdc++'s own, which is known to be malloc or free and nothing else; then these
// are called directly.
bool is_standard(const void* function) {
  Dl_info where{};
  return dladdr(function, &where) != 0 && strstr(where.dli_fname, "/libstdc++.so.") != nullptr;
}

// An operator of the allocator below, looked up when it is first needed.
template <typename Function>
struct Next {
  const char* name;
  std::atomic<Function*> found{nullptr};
  bool standard = false;

  Function* get() {
    Function* function = found.load(std::memory_order_acquire);
    if (function != nullptr) [[likely]]
      return function;
    function = reinterpret_cast<Function*>(find_operator(name));
    standard = is_standard(reinterpret_cast<const void*>(function));
    found.store(function, std::memory_order_release);
    return function;
  }
};

template <typename... Rest>
void* allocate(Next<void*(size_t, Rest...)>& below, unsigned alignment_log2, size_t size,
               Rest... rest) {
  const auto function = below.get();
  if (below.standard && alignment_log2 == 0) {
    const size_t asked = size == 0 ? 1 : size;
    if (void* pointer = next.malloc(asked)) {
      record(RawKind::kAllocate, pointer, asked, 0, stamp_of(pointer));
      return pointer;
    }
    // On failure the operator does more, for example throw.
  }
  const Since before;
  void* pointer = function(size, rest...);
  if (pointer != nullptr && !before.was_recorded(pointer)) {
    record(RawKind::kAllocate, pointer, size, alignment_log2, stamp_of(pointer));
  }
  return pointer;
}

// What a delete does is the same each time, so it is determined once.
enum class Way : uint8_t { kUnknown, kCallsFree, kItself };

template <typename Function>
struct NextDelete : Next<Function> {
  std::atomic<Way> way{Way::kUnknown};
};

template <typename... Rest>
void release(NextDelete<void(void*, Rest...)>& below, void* pointer, Rest... rest) {
  if (pointer == nullptr || is_early(pointer)) return;
  const auto function = below.get();
  if (below.standard) {
    record(RawKind::kFree, pointer, 0, 0, stamp_of_return(pointer));
    return next.free(pointer);
  }
  const Way way = below.way.load(std::memory_order_relaxed);
  if (way == Way::kCallsFree) return function(pointer, rest...);
  const uint64_t stamp = stamp_of_return(pointer);
  if (way == Way::kItself) {
    record(RawKind::kFree, pointer, 0, 0, stamp);
    return function(pointer, rest...);
  }
  const Since before;
  function(pointer, rest...);
  const bool recorded = before.was_freed(pointer);
  if (!recorded) record(RawKind::kFree, pointer, 0, 0, stamp);
  if (thread_state->end == nullptr) return;  // nothing was recorded, so this call shows nothing
  below.way.store(recorded ? Way::kCallsFree : Way::kItself, std::memory_order_relaxed);
}

using Nothrow = const void*;  // a reference to a std::nothrow_t
using Align = size_t;         // a std::align_val_t

}  // namespace

// The mangled NAME, and the parameters after the size or pointer.
#define NEW(name)                                      \
  EXPORT void* name(size_t size) {                     \
    static constinit Next<void*(size_t)> below{#name}; \
    return allocate(below, 0, size);                   \
  }
#define NEW_NOTHROW(name)                                       \
  EXPORT void* name(size_t size, Nothrow nothrow) {             \
    static constinit Next<void*(size_t, Nothrow)> below{#name}; \
    return allocate(below, 0, size, nothrow);                   \
  }
#define NEW_ALIGNED(name)                                     \
  EXPORT void* name(size_t size, Align align) {               \
    static constinit Next<void*(size_t, Align)> below{#name}; \
    return allocate(below, logarithm(align), size, align);    \
  }
#define NEW_ALIGNED_NOTHROW(name)                                      \
  EXPORT void* name(size_t size, Align align, Nothrow nothrow) {       \
    static constinit Next<void*(size_t, Align, Nothrow)> below{#name}; \
    return allocate(below, logarithm(align), size, align, nothrow);    \
  }
#define DELETE(name)                                         \
  EXPORT void name(void* pointer) {                          \
    static constinit NextDelete<void(void*)> below{{#name}}; \
    release(below, pointer);                                 \
  }
#define DELETE_WITH(name, Type)                                    \
  EXPORT void name(void* pointer, Type with) {                     \
    static constinit NextDelete<void(void*, Type)> below{{#name}}; \
    release(below, pointer, with);                                 \
  }
#define DELETE_WITH_BOTH(name, First, Second)                               \
  EXPORT void name(void* pointer, First first, Second second) {             \
    static constinit NextDelete<void(void*, First, Second)> below{{#name}}; \
    release(below, pointer, first, second);                                 \
  }

extern "C" {

NEW(_Znwm)
NEW(_Znam)
NEW_NOTHROW(_ZnwmRKSt9nothrow_t)
NEW_NOTHROW(_ZnamRKSt9nothrow_t)
NEW_ALIGNED(_ZnwmSt11align_val_t)
NEW_ALIGNED(_ZnamSt11align_val_t)
NEW_ALIGNED_NOTHROW(_ZnwmSt11align_val_tRKSt9nothrow_t)
NEW_ALIGNED_NOTHROW(_ZnamSt11align_val_tRKSt9nothrow_t)

DELETE(_ZdlPv)
DELETE(_ZdaPv)
DELETE_WITH(_ZdlPvm, size_t)
DELETE_WITH(_ZdaPvm, size_t)
DELETE_WITH(_ZdlPvRKSt9nothrow_t, Nothrow)
DELETE_WITH(_ZdaPvRKSt9nothrow_t, Nothrow)
DELETE_WITH(_ZdlPvSt11align_val_t, Align)
DELETE_WITH(_ZdaPvSt11align_val_t, Align)
DELETE_WITH_BOTH(_ZdlPvmSt11align_val_t, size_t, Align)
DELETE_WITH_BOTH(_ZdaPvmSt11align_val_t, size_t, Align)
DELETE_WITH_BOTH(_ZdlPvSt11align_val_tRKSt9nothrow_t, Align, Nothrow)
DELETE_WITH_BOTH(_ZdaPvSt11align_val_tRKSt9nothrow_t, Align, Nothrow)

}  // extern "C"
