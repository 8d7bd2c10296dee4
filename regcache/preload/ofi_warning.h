#pragma once

namespace rdmalloc::shim {

// Why malloc'd buffers are left to libfabric: one line on standard error, once for the process,
// unless RDMALLOC_WARN is off.
void warn_once(const char* why);

}  // namespace rdmalloc::shim
