// What operator new must do when memory runs out: shared by a C++ program and by a C program's
// plugin.
#pragma once

#include <cstddef>
#include <new>
#include <stdexcept>

#include "tests/integration/probe.h"

namespace probe {

inline constexpr size_t kImpossible = (size_t{1} << 62) + 1;
inline int handler_calls = 0;

template <typename Allocate>
bool throws_bad_alloc(Allocate allocate) {
  try {
    void* volatile pointer = allocate();
    (void)pointer;
  } catch (const std::bad_alloc&) {
    return true;
  } catch (...) {
  }
  return false;
}

inline int check_bad_alloc() {
  Verdict verdict;
  volatile size_t size = kImpossible;
  constexpr std::align_val_t kAlignment{256};
  if (!throws_bad_alloc([&] { return ::operator new(size); })) verdict.broken("new");
  if (!throws_bad_alloc([&] { return ::operator new[](size); })) verdict.broken("new[]");
  if (!throws_bad_alloc([&] { return ::operator new(size, kAlignment); })) {
    verdict.broken("aligned new");
  }
  if (::operator new(size, std::nothrow) != nullptr) verdict.broken("nothrow new");
  if (::operator new[](size, kAlignment, std::nothrow) != nullptr) {
    verdict.broken("aligned nothrow new[]");
  }
  // The handler is called until it throws or uninstalls itself.
  std::set_new_handler([] {
    if (++handler_calls == 3) std::set_new_handler(nullptr);
  });
  if (!throws_bad_alloc([&] { return ::operator new(size); })) verdict.broken("new with a handler");
  if (handler_calls != 3) verdict.broken("the handler ran %d times", handler_calls);
  std::set_new_handler([] { throw std::bad_alloc(); });
  if (!throws_bad_alloc([&] { return ::operator new(size); })) verdict.broken("throwing handler");
  std::set_new_handler(nullptr);
  return verdict.status();
}

}  // namespace probe
