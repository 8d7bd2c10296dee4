#include "allocator/last_error.h"

namespace rdmalloc {
namespace {

// initial-exec: the general model may call malloc at a thread's first use.
[[gnu::tls_model("initial-exec")]] constinit thread_local char sentence[kLongestError] = {};
// Not copied to `sentence` yet; null: none.
[[gnu::tls_model("initial-exec")]] constinit thread_local const char* literal_told = nullptr;

}  // namespace

char* new_last_error() {
  literal_told = nullptr;
  return sentence;
}

// Always the same address: a caller that asked before a failing call finds the new sentence there.
const char* last_error() {
  if (literal_told != nullptr) (void)fail(0, literal_told);
  return sentence;
}

int fail_often(int status, const char* literal) {
  literal_told = literal;
  return status;
}

}  // namespace rdmalloc
