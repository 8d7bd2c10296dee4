#include "regcache/foreign/monitor/userfaultfd_kernel.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "allocator/os/file.h"

namespace rdmalloc {
namespace {

// Constants that headers may lack.
constexpr int kUserModeOnly = 1;
constexpr unsigned long kNewDescriptor = _IO(0xAA, 0x00);  // of /dev/userfaultfd
constexpr uint64_t kSharedWriteProtection = 1U << 12;      // Linux 5.19: shared memory, hugetlb
constexpr uint64_t kSilentWriteProtection = 1U << 15;      // Linux 6.7: files

constexpr uint64_t kNeeded = UFFD_FEATURE_EVENT_UNMAP | UFFD_FEATURE_EVENT_REMAP |
                             UFFD_FEATURE_EVENT_REMOVE | UFFD_FEATURE_PAGEFAULT_FLAG_WP;

const char* refusal(int error) {
  switch (error) {
    case EPERM:
    case EACCES:
      return "the kernel refuses userfaultfd to this process: type sysctl "
             "vm.unprivileged_userfaultfd=1, or in a container choose a seccomp profile that "
             "allows it";
    case ENOSYS:
      return "the kernel has no userfaultfd (CONFIG_USERFAULTFD)";
    case EMFILE:
    case ENFILE:
      return "there are too many open descriptors";
    default:
      return "the kernel refuses a userfaultfd";
  }
}

bool agree(int fd, uint64_t features, uint64_t* available) {
  uffdio_api api{};
  api.api = UFFD_API;
  api.features = features;
  if (ioctl(fd, UFFDIO_API, &api) != 0) return false;
  if (available != nullptr) *available = api.features;
  return true;
}

KernelEvent event_of(const uffd_msg& message) {
  switch (message.event) {
    case UFFD_EVENT_UNMAP:
      return {KernelEvent::kUnmapped, message.arg.remove.start, message.arg.remove.end};
    case UFFD_EVENT_REMOVE:
      return {KernelEvent::kDropping, message.arg.remove.start, message.arg.remove.end};
    case UFFD_EVENT_REMAP:
      return {KernelEvent::kMoved, message.arg.remap.from,
              message.arg.remap.from + message.arg.remap.len, message.arg.remap.to};
    default:
      return {};
  }
}

}  // namespace

// Asks only for faults of user mode, because faults inside the kernel do not matter here; so no
// privilege is needed. Linux before 5.11 does not know the flag and asks for the privilege.
int KernelUserfaultfd::open_descriptor() {
  constexpr int kFlags = O_CLOEXEC | O_NONBLOCK;
  right_ = kAnyProcess;
  int fd = static_cast<int>(syscall(SYS_userfaultfd, kFlags | kUserModeOnly));
  if (fd < 0 && errno == EINVAL) {
    right_ = kPrivilege;
    fd = static_cast<int>(syscall(SYS_userfaultfd, kFlags));
  }
  if (fd >= 0) return fd;
  const int refusal = errno;
  const auto device =
      static_cast<int>(syscall(SYS_openat, AT_FDCWD, "/dev/userfaultfd", O_RDWR | O_CLOEXEC));
  if (device >= 0) {
    right_ = kDevice;
    fd = ioctl(device, kNewDescriptor, kFlags);
    os::close_file(device);
  }
  if (fd < 0) errno = refusal;
  return fd;
}

const char* KernelUserfaultfd::what() const {
  static constexpr const char* kSentences[][2] = {
      {"the kernel reports every change, but not of files before Linux 6.7 (userfaultfd, which "
       "needs no privilege)",
       "the kernel reports every change (userfaultfd, which needs no privilege)"},
      {"the kernel reports every change, but not of files before Linux 6.7 (userfaultfd, by "
       "privilege or vm.unprivileged_userfaultfd)",
       "the kernel reports every change (userfaultfd, by privilege or "
       "vm.unprivileged_userfaultfd)"},
      {"the kernel reports every change, but not of files before Linux 6.7 (userfaultfd, by "
       "/dev/userfaultfd)",
       "the kernel reports every change (userfaultfd, by /dev/userfaultfd)"}};
  return kSentences[right_][has_files_ ? 1 : 0];
}

const char* KernelUserfaultfd::open() {
  // The API handshake works once per descriptor, so the features are queried on a separate one.
  const int asked = open_descriptor();
  if (asked < 0) return refusal(errno);
  uint64_t available = 0;
  const bool answered = agree(asked, 0, &available);
  os::close_file(asked);
  if (!answered || (available & kNeeded) != kNeeded) {
    return "the kernel's userfaultfd does not report unmapping without serving faults: that needs "
           "Linux 5.7 on a processor with write-protection";
  }
  fd_ = open_descriptor();
  if (fd_ < 0) return refusal(errno);
  const uint64_t wanted = kNeeded | (available & (kSharedWriteProtection | kSilentWriteProtection));
  has_files_ = (wanted & kSilentWriteProtection) != 0;
  if (agree(fd_, wanted, nullptr)) return nullptr;
  has_files_ = false;
  if (agree(fd_, kNeeded, nullptr)) return nullptr;
  close();
  return "the kernel's userfaultfd grants fewer features than it reports";
}

void KernelUserfaultfd::close() {
  if (fd_ >= 0) os::close_file(fd_);
  fd_ = -1;
}

int KernelUserfaultfd::watch(uintptr_t base, size_t length) {
  uffdio_register request{};
  request.range = {base, length};
  request.mode = UFFDIO_REGISTER_MODE_WP;
  return ioctl(fd_, UFFDIO_REGISTER, &request) == 0 ? 0 : errno;
}

int KernelUserfaultfd::unwatch(uintptr_t base, size_t length) {
  uffdio_range range{base, length};
  return ioctl(fd_, UFFDIO_UNREGISTER, &range) == 0 ? 0 : errno;
}

// The kernel checks for a change in progress before it validates the request, which is invalid on
// purpose.
bool KernelUserfaultfd::is_changing() const {
  uffdio_zeropage nothing{};
  nothing.range = {1, 1};
  return ioctl(fd_, UFFDIO_ZEROPAGE, &nothing) != 0 && errno == EAGAIN;
}

bool KernelUserfaultfd::wait(int milliseconds) const {
  pollfd wanted{fd_, POLLIN, 0};
  return poll(&wanted, 1, milliseconds) > 0;
}

size_t KernelUserfaultfd::read(KernelEvent* events, size_t most) {
  constexpr size_t kAtOnce = 16;
  uffd_msg messages[kAtOnce];
  const ssize_t size =
      os::read_some(fd_, messages, (most < kAtOnce ? most : kAtOnce) * sizeof *messages);
  if (size <= 0) return 0;
  const size_t count = static_cast<size_t>(size) / sizeof *messages;
  for (size_t i = 0; i < count; ++i) events[i] = event_of(messages[i]);
  return count;
}

}  // namespace rdmalloc
