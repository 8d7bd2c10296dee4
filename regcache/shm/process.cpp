#include "regcache/shm/process.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

namespace rdmalloc::shm {

namespace {

// Start time in clock ticks since boot; 0: there is no such process, or it is dead.
uint64_t start_of(uint32_t id) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%u/stat", id);
  const int descriptor = open(path, O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return 0;
  char text[1024];
  const ssize_t length = read(descriptor, text, sizeof text - 1);
  close(descriptor);
  if (length <= 0) return 0;
  text[length] = '\0';
  // The second field, the name, may hold anything; it ends at the last parenthesis.
  const char* at = strrchr(text, ')');
  if (at == nullptr || at[1] == '\0' || at[2] == 'Z' || at[2] == 'X' || at[2] == 'x') return 0;
  constexpr int kFieldsToStart = 20;  // from the name to field 22
  for (int field = 0; field < kFieldsToStart && at != nullptr; ++field) at = strchr(at + 1, ' ');
  return at == nullptr ? 0 : strtoull(at + 1, nullptr, 10);
}

}  // namespace

Process this_process() {
  Process self;
  self.id = static_cast<uint32_t>(getpid());
  self.start = start_of(self.id);
  struct stat facts;
  if (stat("/proc/self/ns/pid", &facts) == 0) self.name_space = facts.st_ino;
  return self;
}

bool is_seen_running(const Process& other, const Process& self) {
  if (other.id == 0 || other.name_space != self.name_space) return false;
  return start_of(other.id) == other.start && other.start != 0;
}

}  // namespace rdmalloc::shm
