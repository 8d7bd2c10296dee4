// Catch2, version 2.13 or 3; for both by the names of 3.
#pragma once

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>  // IWYU pragma: export
#else
#include <catch2/catch.hpp>  // IWYU pragma: export
#endif

namespace rdmalloc {

using Catch::Approx;
#if __has_include(<catch2/catch_all.hpp>)
using Catch::Matchers::ContainsSubstring;
#else
inline auto ContainsSubstring(const std::string& text) { return Catch::Contains(text); }  // NOLINT
#endif

}  // namespace rdmalloc
