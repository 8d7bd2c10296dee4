// How a process finds who watches it: by a variable that names an abstract socket, which goes with
// the watcher. No option: its value is made by the command for the processes that it starts.
#pragma once

#include <cstddef>

namespace rdmalloc {

inline constexpr char kWatcherVariable[] = "_RDMALLOC_WATCHER";
inline constexpr size_t kLongestWatcherName = 96;

}  // namespace rdmalloc
