// How a process finds its watcher: by a variable that names an abstract socket, which goes with the
// watcher. It is not an option: the command makes its value for the processes that it starts.
#pragma once

#include <cstddef>

namespace rdmalloc {

inline constexpr char kWatcherVariable[] = "_RDMALLOC_WATCHER";
inline constexpr size_t kLongestWatcherName = 96;

}  // namespace rdmalloc
