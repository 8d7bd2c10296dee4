// Compiling this is the test: the C++ header needs only C++17, and is self-contained.
#include <rdmalloc/rdmalloc.hpp>

#include <type_traits>
#include <vector>

static_assert(!std::is_copy_constructible<rdmalloc::domain>::value, "one owner");
static_assert(std::is_nothrow_move_constructible<rdmalloc::domain>::value, "moves");

template class std::vector<double, rdmalloc::exposed_allocator<double>>;
