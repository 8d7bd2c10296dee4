// What headers of the oldest systems that we build on lack (glibc 2.28, Linux 4.18), by the names
// of newer ones. Whether the running kernel can do it is seen when it is called.
#pragma once

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#if __has_include(<linux/close_range.h>)
#include <linux/close_range.h>
#else
#define CLOSE_RANGE_UNSHARE (1U << 1)
#endif

// From 424 on a system call has the same number on all architectures.
#ifndef SYS_io_uring_setup
#define SYS_io_uring_setup 425
#define SYS_io_uring_enter 426
#define SYS_io_uring_register 427
#endif
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#ifndef SYS_process_madvise
#define SYS_process_madvise 440
#endif

#ifndef SYS_mseal
#define SYS_mseal 462
#endif

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif
#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif
#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif
#ifndef MADV_COLD
#define MADV_COLD 20
#define MADV_PAGEOUT 21
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

namespace rdmalloc::os {

#if !__GLIBC_PREREQ(2, 29)
inline int getcpu(unsigned* processor, unsigned* node) {
  return static_cast<int>(syscall(SYS_getcpu, processor, node, nullptr));
}
#endif
#if !__GLIBC_PREREQ(2, 30)
inline pid_t gettid() { return static_cast<pid_t>(syscall(SYS_gettid)); }
#endif

}  // namespace rdmalloc::os
