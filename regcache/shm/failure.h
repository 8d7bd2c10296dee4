#pragma once

namespace rdmalloc::shm {

// Sets the message of rdm_shm_last_error() for the calling thread. Returns `status`, so that the
// code that detects a failure can report it and return in one statement.
[[gnu::format(printf, 2, 3)]] int fail(int status, const char* format, ...);
const char* last_failure();

}  // namespace rdmalloc::shm
