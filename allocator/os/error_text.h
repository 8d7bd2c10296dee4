// What an errno means, in English. Calls neither malloc nor gettext, which strerror() may.
#pragma once

#include <stdio.h>
#include <string.h>

namespace rdmalloc::os {

// "unknown error" where there is no such errno.
inline const char* error_text(int error) {
#if __GLIBC_PREREQ(2, 32)
  const char* const text = strerrordesc_np(error);
#else
  const char* const text = error >= 0 && error < sys_nerr ? sys_errlist[error] : nullptr;
#endif
  return text == nullptr ? "unknown error" : text;
}

}  // namespace rdmalloc::os
