#include "allocator/os/shared_page.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/memfd.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "allocator/os/confinement.h"
#include "allocator/os/memory.h"
#include "allocator/os/memory_calls.h"
#include "allocator/os/system_call.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U  // Linux 6.3
#endif

namespace rdmalloc::os {
namespace {

void close_descriptor(int fd) { (void)system_call(SYS_close, fd); }

// Where memfds may not be executed by decree, one that could be is refused; older kernels do not
// know the flag.
int make_memfd(const char* name) {
  constexpr unsigned kFlags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  long fd = system_call(SYS_memfd_create, word(name), kFlags | MFD_NOEXEC_SEAL);
  if (fd == -EINVAL) fd = system_call(SYS_memfd_create, word(name), kFlags);
  return static_cast<int>(fd);
}

// A descriptor of the same file from `number` on, or the last that the limit allows.
int move_up(int fd, int number) {
  rlimit64 limit{};
  (void)system_call(SYS_prlimit64, 0, RLIMIT_NOFILE, 0, word(&limit));
  const auto beyond = static_cast<rlim64_t>(number) + 1;
  const long least = limit.rlim_cur >= beyond ? number : static_cast<long>(limit.rlim_cur) - 1;
  const long moved = system_call(SYS_fcntl, fd, F_DUPFD_CLOEXEC, least);
  close_descriptor(fd);
  return static_cast<int>(moved);
}

uint64_t file_of(int fd) {
  struct stat found {};
  return system_call(SYS_fstat, fd, word(&found)) == 0 ? found.st_ino : 0;
}

// Memory first, or a write could be a SIGBUS. Seals last: by then the file must have its size and
// its one mapping that may be written to.
bool map_and_seal(int fd, void** at) {
  constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL;
  if (system_call(SYS_fallocate, fd, 0, 0, kPageSize) != 0) return false;
  const int how = MAP_SHARED | (*at == nullptr ? 0 : MAP_FIXED);
  void* const address = mmap(*at, kPageSize, PROT_READ | PROT_WRITE, how, fd, 0);
  if (address == MAP_FAILED) return false;
  *at = address;
  return system_call(SYS_fcntl, fd, F_ADD_SEALS, kSeals) == 0;
}

Status make(const char* name, int number, SharedPage* page) {
  if (is_confined()) return Status::kRefused;
  int fd = make_memfd(name);
  if (fd >= 0) fd = move_up(fd, number);
  if (fd < 0) return Status::kRefused;
  void* address = page->address;
  if (!map_and_seal(fd, &address)) {
    close_descriptor(fd);
    if (page->address == nullptr && address != nullptr) (void)munmap(address, kPageSize);
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

// The program may have closed the descriptor, and opened something else there.
Status replace_page(const char* name, int number, SharedPage* page) {
  if (is_confined()) return Status::kRefused;
  if (page->file != 0 && file_of(page->descriptor) == page->file)
    close_descriptor(page->descriptor);
  page->descriptor = -1;
  page->file = 0;
  return make(name, number, page);
}

}  // namespace rdmalloc::os
