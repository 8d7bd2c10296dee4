#include "regcache/last_error.h"

namespace rdmalloc {
namespace {

// initial-exec: the general model may call malloc at a thread's first use.
[[gnu::tls_model("initial-exec")]] constinit thread_local char sentence[kLongestError] = {};

}  // namespace

char* last_error() { return sentence; }

}  // namespace rdmalloc
