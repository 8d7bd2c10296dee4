// What jemalloc's operator new needs from libstdc++, looked up only when memory has run out.
// Linking libstdc++ would cost every C program start-up time (bench/README.md); a C++ program
// brings its own copy, perhaps only later, by dlopen.
#include <dlfcn.h>
#include <stdlib.h>

#include "allocator/message.h"

namespace {

void* find(const char* symbol) {
  if (void* global = dlsym(RTLD_DEFAULT, symbol)) return global;
  void* library = dlopen("libstdc++.so.6", RTLD_LAZY | RTLD_NOLOAD);
  return library == nullptr ? nullptr : dlsym(library, symbol);
}

using Handler = void (*)();

}  // namespace

extern "C" {

// std::set_new_handler, std::__throw_bad_alloc and _Unwind_Resume, under the names that
// prepare_engine.sh gave jemalloc's references.
Handler rdmalloc_set_new_handler(Handler handler) {
  using Set = Handler (*)(Handler);
  const auto set = reinterpret_cast<Set>(find("_ZSt15set_new_handlerPFvvE"));
  return set == nullptr ? nullptr : set(handler);
}

[[noreturn]] void rdmalloc_throw_bad_alloc() {
  using Throw = void (*)();
  const auto raise = reinterpret_cast<Throw>(find("_ZSt17__throw_bad_allocv"));
  if (raise != nullptr) raise();
  rdmalloc::Message()
      .add("rdmalloc: operator new: out of memory, and no libstdc++ to throw")
      .send();
  abort();
}

// The program's unwinder is used: ours, linked for the heap profiler, cannot handle its exceptions.
[[noreturn]] void rdmalloc_unwind_resume(void* exception) {
  using Resume = void (*)(void*);
  const auto resume = reinterpret_cast<Resume>(find("_Unwind_Resume"));
  if (resume != nullptr) resume(exception);
  abort();
}

}  // extern "C"
