#include "allocator/os/environment.h"

#include <sys/auxv.h>

#include "allocator/os/keep_errno.h"

extern "C" char** environ;

namespace rdmalloc::os {
namespace {

// Longer entries are not ours: our names and values are short.
constexpr size_t kLongestEntry = 4096;

void read_from_proc(Text prefix, void (*visit)(void*, Text), void* context) {
  const int fd = open_file("/proc/self/environ");
  if (fd < 0) return;
  char entry[kLongestEntry];
  char block[1024];
  size_t length = 0;
  ssize_t got = 0;
  while ((got = read_some(fd, block, sizeof block)) > 0) {
    for (ssize_t i = 0; i < got; ++i) {
      if (block[i] != '\0') {
        if (length < sizeof entry) entry[length] = block[i];
        ++length;
        continue;
      }
      const Text whole{entry, length};
      if (length < sizeof entry && whole.starts_with(prefix)) visit(context, whole);
      length = 0;
    }
  }
  close_file(fd);
}

}  // namespace

void for_each_environment(const char* prefix, void (*visit)(void* context, Text entry),
                          void* context) {
  const KeepErrno keep;
  // A set-user-ID program must not obey its caller: an option can name a file to write.
  if (getauxval(AT_SECURE) != 0) return;
  const Text wanted = text(prefix);
  if (environ == nullptr) {
    read_from_proc(wanted, visit, context);
    return;
  }
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const Text whole = text(*entry);
    if (whole.starts_with(wanted)) visit(context, whole);
  }
}

}  // namespace rdmalloc::os
