// Puts a watcher (watcher.h) beside the program that is about to be run.
#pragma once

#include <chrono>

namespace rdmalloc::cli {

// Names it in the environment. It is neither a child of the program nor in its session, so a signal
// to the program's group does not reach it. Throws Refusal if it cannot be started.
void start_watcher(std::chrono::seconds interval);

}  // namespace rdmalloc::cli
