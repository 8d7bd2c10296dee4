// The sentence that goes with the last failure that a thread was told of: rdm_last_error().
#pragma once

#include "regcache/failure.h"

namespace rdmalloc {

constexpr size_t kLongestError = 320;

inline char* last_error() {
  [[gnu::tls_model("initial-exec")]] static constinit thread_local char sentence[kLongestError] = {};
  return sentence;
}

inline int fail(int status, const char* sentence) {
  return fail(status, sentence, last_error(), kLongestError);
}

}  // namespace rdmalloc
