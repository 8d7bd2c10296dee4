#include "allocator/last_error.h"

namespace rdmalloc {
namespace {

// initial-exec: the general model may call malloc at a thread's first use.
[[gnu::tls_model("initial-exec")]] constinit thread_local char sentence[kLongestError] = {};
// Null: `sentence`.
[[gnu::tls_model("initial-exec")]] constinit thread_local const char* literal_told = nullptr;

}  // namespace

const char* last_error() { return literal_told != nullptr ? literal_told : sentence; }

char* new_last_error() {
  literal_told = nullptr;
  return sentence;
}

int fail_often(int status, const char* literal) {
  literal_told = literal;
  return status;
}

}  // namespace rdmalloc
