#include "allocator/tools/info/kernel_abilities.h"

#include <fcntl.h>
#include <linux/mempolicy.h>
#include <linux/userfaultfd.h>
#include <signal.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "allocator/os/io_uring.h"
#include "allocator/os/limits.h"
#include "allocator/os/memory.h"
#include "allocator/os/newer_headers.h"
#include "allocator/tools/child.h"

namespace rdmalloc::cli {
namespace {

constexpr int kUserModeOnly = 1;  // UFFD_USER_MODE_ONLY, since Linux 5.11

// Runs an attempt in a child; returns 0 or its errno. It must not allocate: the parent may have
// threads.
template <typename Attempt>
int attempt_in_child(Attempt attempt) {
  const pid_t child = fork();
  if (child < 0) return errno;
  if (child == 0) {
    errno = 0;
    _exit(attempt() ? 0 : errno != 0 ? errno : EINVAL);
  }
  const int status = wait_for(child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : EFAULT;
}

void* map_pages(size_t count) {
  return mmap(nullptr, count * os::page_size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
              -1, 0);
}

bool try_populate() { return madvise(map_pages(1), os::page_size(), MADV_POPULATE_WRITE) == 0; }

bool try_lock() { return syscall(SYS_mlock2, map_pages(1), os::page_size(), MLOCK_ONFAULT) == 0; }

// Sealed means that munmap is refused: test that instead of trusting the call's return value.
bool try_seal() {
  void* page = map_pages(1);
  if (syscall(SYS_mseal, page, os::page_size(), 0) != 0) return false;
  return munmap(page, os::page_size()) != 0 && errno == EPERM;
}

bool try_place() {
  const unsigned long nodes = 1;
  return syscall(SYS_mbind, map_pages(1), os::page_size(), MPOL_PREFERRED, &nodes, 8 * sizeof nodes,
                 0) == 0;
}

bool try_io_uring() {
  os::IoUringParameters parameters{};
  return syscall(SYS_io_uring_setup, 2, &parameters) >= 0;
}

bool try_userfaultfd() {
  return syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | kUserModeOnly) >= 0;
}

bool try_to_move() {
  auto* const from = static_cast<volatile char*>(map_pages(1));
  void* const to = map_pages(1);
  if (syscall(SYS_mlock2, from, os::page_size(), MLOCK_ONFAULT) != 0) return false;
  *from = 7;
  const uint64_t locked = os::locked_memory();
  void* const moved = mremap(const_cast<char*>(from), os::page_size(), os::page_size(),
                             MREMAP_MAYMOVE | MREMAP_FIXED, to);
  if (moved != to) return false;
  if (os::locked_memory() == locked && *static_cast<volatile char*>(moved) == 7) return true;
  errno = ENOTSUP;
  return false;
}

// A ring with one registered page, using system calls only. A failure sets errno.
class Ring {
  static constexpr off_t kSubmissionRing = 0;        // IORING_OFF_SQ_RING
  static constexpr off_t kSubmissions = 0x10000000;  // IORING_OFF_SQES
  static constexpr uint8_t kReadFixed = 4;           // IORING_OP_READ_FIXED
  static constexpr unsigned kGetEvents = 1;          // IORING_ENTER_GETEVENTS

 public:
  bool open(void* page) {
    os::IoUringParameters parameters{};
    fd_ = static_cast<int>(syscall(SYS_io_uring_setup, 2, &parameters));
    if (fd_ < 0) return false;
    const iovec buffer{page, os::page_size()};
    if (syscall(SYS_io_uring_register, fd_, os::IoUringOperation::kRegisterBuffers, &buffer, 1) !=
        0)
      return false;
    const size_t indices = parameters.ring.array + parameters.submissions * sizeof(unsigned);
    rings_ = static_cast<char*>(map(indices, kSubmissionRing));
    entries_ = static_cast<os::IoUringSubmission*>(
        map(parameters.submissions * sizeof(os::IoUringSubmission), kSubmissions));
    tail_at_ = parameters.ring.tail;
    array_at_ = parameters.ring.array;
    return rings_ != MAP_FAILED && entries_ != MAP_FAILED;
  }

  // Makes the kernel write into the page through its registration.
  bool read_into(void* page, int from) {
    entries_[0] = {};
    entries_[0].opcode = kReadFixed;
    entries_[0].descriptor = from;
    entries_[0].address = reinterpret_cast<uintptr_t>(page);
    entries_[0].length = 1;
    auto* const tail = reinterpret_cast<unsigned*>(rings_ + tail_at_);
    *reinterpret_cast<unsigned*>(rings_ + array_at_) = 0;
    __atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
    return syscall(SYS_io_uring_enter, fd_, 1, 1, kGetEvents, nullptr, 0) == 1;
  }

 private:
  void* map(size_t bytes, off_t what) const {
    return mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd_, what);
  }

  int fd_ = -1;
  char* rings_ = nullptr;
  os::IoUringSubmission* entries_ = nullptr;
  unsigned tail_at_ = 0;
  unsigned array_at_ = 0;
};

// Registers a page, keeps a child alive, and writes to the page. Are writes through the
// registration still seen?
bool try_copy_at_fork() {
  auto* const page = static_cast<volatile char*>(map_pages(1));
  *page = 'a';
  Ring ring;
  int ends[2];
  if (!ring.open(const_cast<char*>(page)) || pipe(ends) != 0) return false;
  const pid_t child = fork();
  if (child < 0) return false;
  if (child == 0) {
    for (;;) pause();
  }
  *page = 'b';
  const bool is_read =
      write(ends[1], "c", 1) == 1 && ring.read_into(const_cast<char*>(page), ends[0]);
  const bool is_seen = *page == 'c';
  (void)kill(child, SIGKILL);
  (void)waitpid(child, nullptr, 0);
  if (!is_read) return false;
  if (!is_seen) errno = ENOTSUP;
  return is_seen;
}

struct Trial {
  const char* name;
  const char* since;
  bool (*attempt)();
  const char* without;
};

constexpr Trial kTrials[] = {
    {"mlock", "4.4", try_lock, "nothing is pinned; the heap works as ordinary memory"},
    {"populate", "5.14", try_populate,
     "pages come by touch, one by one, and a lack of huge pages shows later"},
    {"copy-on-fork", "5.12", try_copy_at_fork,
     "a process with a domain must not fork and go on using the device: what it writes to while a "
     "child lives leaves its registration"},
    {"move", "2.4", try_to_move, "free pages are unlocked and locked again when they are gathered"},
    {"mseal", "6.10", try_seal,
     "seal=on, by which the kernel refuses that regions are unmapped, does nothing"},
    {"placement", "2.6", try_place,
     "a region lies on the node of the thread that touches it first"},
    {"io_uring", "5.1", try_io_uring, "no region can be registered as a fixed buffer of io_uring"},
    {"userfaultfd", "5.11", try_userfaultfd,
     "fewer registrations of memory outside the heap can be kept: only functions of ours tell that "
     "it is unmapped. The heap itself does not need it"}};

}  // namespace

std::vector<Ability> kernel_abilities() {
  std::vector<Ability> all;
  for (const Trial& trial : kTrials) {
    all.push_back({trial.name, trial.since, attempt_in_child(trial.attempt), trial.without});
  }
  return all;
}

}  // namespace rdmalloc::cli
