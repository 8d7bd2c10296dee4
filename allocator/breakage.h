// Places where a test build can break the library, to check that a test notices: tests/README.md
// lists them. In the product each is a constant, and none of this is compiled.
//
// For .cpp files of the core only: those with a breakage are compiled a second time for the tests.
#pragma once

#ifdef RDMALLOC_BREAKAGES

namespace rdmalloc {

// Whether the environment asks for this breakage (tests/support/breakage.cpp).
bool is_broken(const char* breakage);

}  // namespace rdmalloc

#define RDM_BROKEN(breakage) ::rdmalloc::is_broken(#breakage)
#else
#define RDM_BROKEN(breakage) false
#endif
