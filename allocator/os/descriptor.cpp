#include "allocator/os/descriptor.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "allocator/os/file.h"
#include "allocator/os/system_call.h"

namespace rdmalloc::os {

int move_descriptor(int fd, int number) {
  rlimit64 limit{};
  (void)system_call(SYS_prlimit64, 0, RLIMIT_NOFILE, 0, word(&limit));
  const auto beyond = static_cast<rlim64_t>(number) + 1;
  const long least = limit.rlim_cur >= beyond ? number : static_cast<long>(limit.rlim_cur) - 1;
  const long moved = system_call(SYS_fcntl, fd, F_DUPFD_CLOEXEC, least);
  close_file(fd);
  return static_cast<int>(moved);
}

}  // namespace rdmalloc::os
