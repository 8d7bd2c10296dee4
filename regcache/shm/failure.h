#pragma once

namespace rdmalloc::shm {

// The sentence of rdm_shm_last_error(): kept for the calling thread. Returns `status`, so that
// whoever detects a failure says it and returns in one go.
[[gnu::format(printf, 2, 3)]] int fail(int status, const char* format, ...);
const char* last_failure();

}  // namespace rdmalloc::shm
