// Puts a watcher (watcher.h) beside the program that is about to be run.
#pragma once

#include <chrono>

namespace rdmalloc::cli {

// Names it in the environment. It is no child of the program's, nor of its session: a signal to the
// program's group is none to it. A Refusal where it cannot be had.
void start_watcher(std::chrono::seconds interval);

}  // namespace rdmalloc::cli
