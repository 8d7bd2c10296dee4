#include "allocator/os/shared_page.h"

#include <errno.h>
#include <linux/memfd.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

#include "allocator/os/clock.h"
#include "allocator/os/confinement.h"
#include "allocator/os/descriptor.h"
#include "allocator/os/file.h"
#include "allocator/os/memory.h"
#include "allocator/os/memory_calls.h"
#include "allocator/os/newer_headers.h"
#include "allocator/os/system_call.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U  // Linux 6.3
#endif

namespace rdmalloc::os {
namespace {

// Where the system forbids executable memfds, the flag is needed; older kernels do not know it.
int make_memfd(const char* name) {
  constexpr unsigned kFlags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  long fd = system_call(SYS_memfd_create, word(name), kFlags | MFD_NOEXEC_SEAL);
  if (fd == -EINVAL) fd = system_call(SYS_memfd_create, word(name), kFlags);
  return static_cast<int>(fd);
}

uint64_t file_of(int fd) {
  struct stat found {};
  return system_call(SYS_fstat, fd, word(&found)) == 0 ? found.st_ino : 0;
}

// Allocate the memory first, or a write could be a SIGBUS. Seal last: by then the file must have
// its size and its one writable mapping.
bool map_and_seal(int fd, void** at) {
  constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL;
  if (system_call(SYS_fallocate, fd, 0, 0, page_size()) != 0) return false;
  const int how = MAP_SHARED | (*at == nullptr ? 0 : MAP_FIXED);
  void* const address = mmap(*at, page_size(), PROT_READ | PROT_WRITE, how, fd, 0);
  if (address == MAP_FAILED) return false;
  *at = address;
  return system_call(SYS_fcntl, fd, F_ADD_SEALS, kSeals) == 0;
}

Status make(const char* name, int number, SharedPage* page) {
  if (is_confined()) return Status::kRefused;
  int fd = make_memfd(name);
  if (fd >= 0) fd = move_descriptor(fd, number);
  if (fd < 0) return Status::kRefused;
  void* address = page->address;
  if (!map_and_seal(fd, &address)) {
    close_file(fd);
    if (page->address == nullptr && address != nullptr) (void)munmap(address, page_size());
    return Status::kRefused;
  }
  *page = {address, fd, file_of(fd)};
  return Status::kOk;
}

}  // namespace

Status share_page(const char* name, int number, SharedPage* out) {
  SharedPage page;
  const Status status = make(name, number, &page);
  if (ok(status)) *out = page;
  return status;
}

int page_descriptor(const SharedPage& page) {
  return page.file != 0 && file_of(page.descriptor) == page.file ? page.descriptor : -1;
}

bool lock_page(const SharedPage& page, uint64_t patience_ns) {
  constexpr timespec kPause = {0, 100'000};
  const int fd = page_descriptor(page);
  if (fd < 0) return false;
  const uint64_t until = now_ns() + patience_ns;
  while (system_call(SYS_flock, fd, LOCK_EX | LOCK_NB) != 0) {
    if (now_ns() > until) return false;
    (void)system_call(SYS_nanosleep, word(&kPause));
  }
  return true;
}

void unlock_page(const SharedPage& page) { (void)system_call(SYS_flock, page.descriptor, LOCK_UN); }

Status replace_page(const char* name, int number, SharedPage* page) {
  if (is_confined()) return Status::kRefused;
  const int fd = page_descriptor(*page);
  if (fd >= 0) close_file(fd);
  page->descriptor = -1;
  page->file = 0;
  return make(name, number, page);
}

}  // namespace rdmalloc::os
