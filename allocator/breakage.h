// Places where a test build can break the library, to check that a test notices: tests/README.md
// lists them. In the product each is a constant, and none of this is compiled.
//
// For .cpp files of the core only: those with a breakage are compiled a second time for the tests.
#pragma once

namespace rdmalloc {

#ifdef RDMALLOC_BREAKAGES
// Whether the environment asks for this breakage (tests/support/breakage.cpp).
bool is_broken(const char* breakage);
#else
constexpr bool is_broken(const char*) { return false; }
#endif

}  // namespace rdmalloc

#define RDM_BROKEN(breakage) ::rdmalloc::is_broken(#breakage)
