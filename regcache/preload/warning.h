#pragma once

namespace rdmalloc::shim {

// Why malloc'd buffers are left to `whom`, a library: one line on standard error, once for each
// shim, unless RDMALLOC_WARN is off. Any thread, not inside malloc.
void warn_once(const char* whom, const char* why);

}  // namespace rdmalloc::shim
