// Catch's matcher of a part of a text, which version 2.13 calls otherwise than 3.
#pragma once

#include <string>

#include "tests/support/catch.h"

namespace rdmalloc::test {

inline auto containing(const std::string& text) {
#if CATCH_VERSION_MAJOR >= 3
  return Catch::Matchers::ContainsSubstring(text);
#else
  return Catch::Matchers::Contains(text);
#endif
}

}  // namespace rdmalloc::test
