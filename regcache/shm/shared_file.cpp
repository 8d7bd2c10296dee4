#include "regcache/shm/shared_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "rdmalloc/rdmalloc.h"
#include "regcache/shm/failure.h"

namespace rdmalloc::shm {

namespace {

constexpr char kFolder[] = "/dev/shm";
constexpr size_t kLongestName = 200;
// The byte that is locked to remove the name; the ranks' bytes come before it.
constexpr off_t kNameByte = off_t{1} << 32;
// How much one call allocates. A call that a signal interrupts gives back everything it allocated,
// so with a timer faster than the allocation of a whole part, one call for the whole part would
// never succeed.
constexpr uint64_t kAllocatedAtOnce = 4 << 20;

struct Path {
  explicit Path(const char* name) { snprintf(text, sizeof text, "%s/%s", kFolder, name); }
  char text[sizeof kFolder + kLongestName + 1];
};

int out_of_space(uint64_t bytes) {
  struct statvfs space;
  const bool is_known = statvfs(kFolder, &space) == 0;
  const uint64_t left = is_known ? uint64_t{space.f_bavail} * space.f_frsize : 0;
  return fail(RDM_OUT_OF_BUDGET,
              "%s has no space for %llu bytes (%llu are left): make it larger (mount -o "
              "remount,size=... %s; in a container, --shm-size), or the plan smaller",
              kFolder, static_cast<unsigned long long>(bytes),
              static_cast<unsigned long long>(left), kFolder);
}

// Beyond this limit the kernel would not only refuse but also send SIGXFSZ.
bool is_within_file_limit(uint64_t bytes) {
  rlimit limit;
  return getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
         bytes <= limit.rlim_cur;
}

struct flock lock_of(off_t byte, short type) {
  struct flock lock = {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = byte;
  lock.l_len = 1;
  return lock;
}

// Checked before anything is allocated: a segment that cannot fit fails at once, on the rank that
// creates it.
bool has_space(int descriptor, uint64_t bytes) {
  struct statvfs space;
  // Zero blocks means a file system without a limit.
  if (fstatvfs(descriptor, &space) != 0 || space.f_blocks == 0) return true;
  return uint64_t{space.f_bavail} * space.f_frsize >= bytes;
}

}  // namespace

SharedFile::~SharedFile() {
  if (base_ != nullptr) munmap(base_, mapped_);
  if (descriptor_ >= 0) close(descriptor_);
}

int SharedFile::check_name(const char* name) {
  const size_t length = name == nullptr ? 0 : strnlen(name, kLongestName + 1);
  if (length == 0 || length > kLongestName) {
    return fail(RDM_INVALID, "a segment's name has 1 to %zu characters", kLongestName);
  }
  if (strchr(name, '/') != nullptr || name[0] == '.') {
    return fail(RDM_INVALID, "a segment's name has no slash and does not begin with a dot: %s",
                name);
  }
  return RDM_OK;
}

int SharedFile::make(uint64_t bytes, uint64_t allocated) {
  descriptor_ = ::open(kFolder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (descriptor_ < 0) {
    return fail(RDM_SYSTEM, "cannot make a file in %s: %s", kFolder, strerror(errno));
  }
  if (!has_space(descriptor_, bytes)) return out_of_space(bytes);
  if (!is_within_file_limit(bytes)) {
    return fail(RDM_OUT_OF_BUDGET,
                "a segment of %llu bytes is longer than files of this process may be: raise the "
                "limit (ulimit -f), or make the plan smaller",
                static_cast<unsigned long long>(bytes));
  }
  if (ftruncate(descriptor_, static_cast<off_t>(bytes)) != 0) {
    return fail(RDM_SYSTEM, "cannot make a file of %llu bytes in %s: %s",
                static_cast<unsigned long long>(bytes), kFolder, strerror(errno));
  }
  bytes_ = bytes;
  const int status = allocate(0, allocated);
  return status == RDM_OK ? map(bytes) : status;
}

int SharedFile::publish(const char* name) {
  const Path path(name);
  char self[64];
  snprintf(self, sizeof self, "/proc/self/fd/%d", descriptor_);
  if (linkat(AT_FDCWD, self, AT_FDCWD, path.text, AT_SYMLINK_FOLLOW) == 0) return RDM_OK;
  if (errno == EEXIST) return fail(RDM_BUSY, "%s is there already, and in use", path.text);
  return fail(RDM_SYSTEM, "cannot name a file %s: %s", path.text, strerror(errno));
}

int SharedFile::open(const char* name, uint64_t least) {
  const Path path(name);
  // O_NONBLOCK: otherwise opening a FIFO of that name would block.
  descriptor_ = ::open(path.text, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (descriptor_ < 0 && errno == ENOENT) return RDM_AGAIN;
  struct stat facts;
  if (descriptor_ < 0 || fstat(descriptor_, &facts) != 0) {
    return fail(errno == EACCES || errno == EISDIR || errno == ELOOP || errno == ENXIO ? RDM_INVALID
                                                                                       : RDM_SYSTEM,
                "cannot open %s: %s", path.text, strerror(errno));
  }
  if (!S_ISREG(facts.st_mode)) return fail(RDM_INVALID, "%s is not a file", path.text);
  // Refused even to root: the owner could write to the file at any time.
  if (facts.st_uid != geteuid()) {
    return fail(RDM_INVALID, "%s belongs to user %u, and this process runs as user %u", path.text,
                facts.st_uid, geteuid());
  }
  bytes_ = static_cast<uint64_t>(facts.st_size);
  if (bytes_ < least) {
    return fail(RDM_INVALID, "%s is truncated, or not a segment: it has %llu bytes", path.text,
                static_cast<unsigned long long>(bytes_));
  }
  return RDM_OK;
}

int SharedFile::map(uint64_t bytes) {
  void* base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, 0);
  if (base == MAP_FAILED) {
    return fail(RDM_SYSTEM, "cannot map the %llu bytes of a segment: %s",
                static_cast<unsigned long long>(bytes), strerror(errno));
  }
  base_ = static_cast<unsigned char*>(base);
  mapped_ = bytes;
  return RDM_OK;
}

int SharedFile::allocate(uint64_t offset, uint64_t bytes) {
  for (uint64_t done = 0; done < bytes;) {
    const uint64_t left = bytes - done;
    const uint64_t length = left < kAllocatedAtOnce ? left : kAllocatedAtOnce;
    if (fallocate(descriptor_, 0, static_cast<off_t>(offset + done), static_cast<off_t>(length)) ==
        0) {
      done += length;
      continue;
    }
    if (errno == EINTR) continue;
    if (errno == ENOSPC || errno == ENOMEM) return out_of_space(left);
    return fail(RDM_SYSTEM, "cannot allocate %llu bytes of a segment: %s",
                static_cast<unsigned long long>(bytes), strerror(errno));
  }
  return RDM_OK;
}

bool SharedFile::read(uint64_t offset, void* to, size_t bytes) const {
  return pread(descriptor_, to, bytes, static_cast<off_t>(offset)) == static_cast<ssize_t>(bytes);
}

void SharedFile::remove_name(const char* name) const {
  const Path path(name);
  struct stat ours;
  struct stat named;
  // Otherwise another process could remove the name between the check and unlink(), a third could
  // create the next segment of that name, and this would remove its name.
  struct flock lock = lock_of(kNameByte, F_WRLCK);
  while (fcntl(descriptor_, F_SETLKW, &lock) != 0 && errno == EINTR) {
  }
  if (fstat(descriptor_, &ours) == 0 && lstat(path.text, &named) == 0 &&
      ours.st_ino == named.st_ino && ours.st_dev == named.st_dev) {
    unlink(path.text);
  }
  lock = lock_of(kNameByte, F_UNLCK);
  fcntl(descriptor_, F_SETLK, &lock);
}

int SharedFile::lock(unsigned rank) const {
  struct flock lock = lock_of(rank, F_WRLCK);
  if (fcntl(descriptor_, F_SETLK, &lock) == 0) return RDM_OK;
  if (errno == EAGAIN || errno == EACCES) {
    return fail(RDM_BUSY, "rank %u is attached already", rank);
  }
  return fail(RDM_SYSTEM, "cannot lock a rank's byte of a segment: %s", strerror(errno));
}

bool SharedFile::is_locked(unsigned rank) const {
  struct flock lock = lock_of(rank, F_WRLCK);
  return fcntl(descriptor_, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

}  // namespace rdmalloc::shm
