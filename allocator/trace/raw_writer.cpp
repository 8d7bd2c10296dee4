#include "allocator/trace/raw_writer.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "allocator/os/environment.h"
#include "allocator/os/error_text.h"
#include "allocator/os/file.h"
#include "allocator/os/memory_calls.h"
#include "allocator/os/newer_headers.h"
#include "allocator/os/page_size.h"
#include "allocator/os/standard_error.h"
#include "allocator/trace/ticks.h"

namespace rdmalloc::trace {
namespace {

using os::Text;
using os::text;

constexpr uint64_t kDefaultLimit = uint64_t{1} << 30;
constexpr size_t kLongestPath = 4096;
constexpr uint64_t kStretch = 4 << 20;

// A path or a line, built without malloc. What does not fit is cut off; is_whole() tells.
class Line {
 public:
  Line& add(Text part) {
    whole_ = whole_ && part.size < sizeof text_ - size_;
    if (!whole_) return *this;
    memcpy(text_ + size_, part.data, part.size);
    size_ += part.size;
    text_[size_] = '\0';
    return *this;
  }
  Line& add(const char* part) { return add(text(part)); }
  Line& add(uint64_t number) { return add(os::Decimal(number).c_string()); }
  void cut(size_t size) {
    size_ = size;
    text_[size] = '\0';
  }

  const char* c_string() const { return text_; }
  size_t size() const { return size_; }
  bool is_whole() const { return whole_; }

 private:
  char text_[kLongestPath] = {};
  size_t size_ = 0;
  bool whole_ = true;
};

// Read once, so that children are recorded even if the program clears its environment.
struct Wish {
  bool known = false;
  Line folder;
  uint64_t limit = kDefaultLimit;
};
constinit Wish wish;
constinit Line raw_path;  // of this process

void note_variable(void*, Text entry) {
  const Text folder = text(kFolderVariable);
  const Text limit = text(kLimitVariable);
  if (entry.starts_with(folder) && entry.size > folder.size && entry.data[folder.size] == '=') {
    wish.folder.add(entry.drop(folder.size + 1));
  } else if (entry.starts_with(limit) && entry.size > limit.size && entry.data[limit.size] == '=') {
    uint64_t bytes = 0;
    Text rest;
    if (os::parse_decimal(entry.drop(limit.size + 1), &bytes, &rest)) wish.limit = bytes;
  }
}

bool refuse(const char* what, const char* path, long error) {
  Line line;
  line.add("rdmalloc trace: ").add(what).add(path).add(": ");
  line.add(os::error_text(static_cast<int>(error))).add("; this process is not recorded\n");
  os::write_standard_error(line.c_string(), line.size());
  return false;
}

// FOLDER/PROCESS.0, or the next free number: a process image that an exec replaced had the same
// process number. -1: the folder is gone, and nobody waits for the recording; other errors are
// reported.
long create(Line& path, uint64_t process) {
  path.add("/").add(process).add(".");
  const size_t length = path.size();
  long fd = -EEXIST;
  for (uint64_t image = 0; fd == -EEXIST; ++image) {
    path.cut(length);
    path.add(image);
    if (!path.is_whole()) return -1;
    fd = os::system_call(SYS_openat, AT_FDCWD, os::word(path.c_string()),
                         O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  }
  if (fd < 0 && fd != -ENOENT) refuse("cannot make ", path.c_string(), -fd);
  return fd < 0 ? -1 : fd;
}

// How far the file may grow: beyond its limit the kernel would send SIGXFSZ.
uint64_t within_file_limit(uint64_t bytes) {
  // As the kernel defines them: RLIMIT_FSIZE and struct rlimit64.
  constexpr int kFileSize = 1;
  struct {
    uint64_t soft;
    uint64_t hard;
  } limit{UINT64_MAX, UINT64_MAX};
  const long error = os::system_call(SYS_prlimit64, 0, kFileSize, 0, os::word(&limit));
  if (error == 0 && limit.soft < bytes) bytes = limit.soft;
  return os::page_floor(bytes);
}

// Faults the pages in. If there is no space for them this returns an error, while a write to them
// would be a SIGBUS. -EINVAL: the kernel is older than Linux 5.14.
long populate(void* memory, size_t bytes) {
  long error = 0;
  do {
    error = os::system_call(SYS_madvise, os::word(memory), static_cast<long>(bytes),
                            MADV_POPULATE_WRITE);
  } while (error == -EINTR || error == -EAGAIN);
  return error;
}

void describe_program(RawHeader& header) {
  (void)os::system_call(SYS_readlinkat, AT_FDCWD, os::word("/proc/self/exe"),
                        os::word(header.executable), sizeof header.executable - 1);
  const ssize_t size = os::read_file("/proc/self/cmdline", header.program, sizeof header.program);
  header.program_size = size > 0 ? static_cast<uint32_t>(size) : 0;
}

}  // namespace

bool RawWriter::start() {
  if (header_ != nullptr) (void)os::munmap(header_, limit_);  // the parent's
  *this = RawWriter();
  if (!wish.known) os::for_each_environment("RDMTRACE_", note_variable, nullptr);
  wish.known = true;
  if (wish.folder.size() == 0 || !wish.folder.is_whole()) return false;
  os::remember_standard_error();
  const auto number = static_cast<uint64_t>(os::system_call(SYS_getpid));
  raw_path = wish.folder;
  const long fd = create(raw_path, number);
  if (fd < 0) return false;
  const bool mapped = map(static_cast<int>(fd), within_file_limit(wish.limit));
  const int error = errno;
  os::close_file(static_cast<int>(fd));
  if (!mapped) {
    (void)os::system_call(SYS_unlinkat, AT_FDCWD, os::word(raw_path.c_string()), 0);
    return refuse("cannot write ", raw_path.c_string(), error);
  }
  header_->process = static_cast<uint32_t>(number);
  header_->limit = limit_;
  header_->taken = os::page_size();
  describe_program(*header_);
  header_->version = kRawVersion;
  header_->start_ticks = now_ticks();
  __atomic_store_n(&header_->magic, kRawMagic, __ATOMIC_RELEASE);
  return true;
}

// Maps as much as the address space allows. On failure errno says why.
bool RawWriter::map(int fd, uint64_t limit) {
  void* memory = MAP_FAILED;
  errno = EFBIG;
  for (; memory == MAP_FAILED && limit >= kSmallestLimit; limit = os::page_floor(limit / 2)) {
    limit_ = limit;
    const long error = os::system_call(SYS_ftruncate, fd, static_cast<long>(limit));
    errno = static_cast<int>(-error);
    if (error != 0) continue;
    memory = os::mmap(nullptr, limit, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  }
  if (memory == MAP_FAILED) return false;
  header_ = static_cast<RawHeader*>(memory);
  long error = populate(memory, os::page_size());
  if (error == -EINVAL) {
    made_ready_ = true;
    error = os::system_call(SYS_fallocate, fd, 0, 0, static_cast<long>(limit_));
  }
  if (error == 0) return true;
  (void)os::munmap(memory, limit_);
  header_ = nullptr;
  errno = error == -EFAULT ? ENOSPC : static_cast<int>(-error);
  return false;
}

uint32_t* RawWriter::take_chunk(uint32_t thread, size_t bytes, uint64_t stamp) {
  if (__atomic_load_n(&header_->stopped, __ATOMIC_RELAXED) != 0) return nullptr;
  const uint64_t offset = __atomic_fetch_add(&header_->taken, bytes, __ATOMIC_RELAXED);
  if (offset + bytes > limit_) {
    stop(StopReason::kLimit, 0);
    return nullptr;
  }
  if (offset / kStretch != (offset + bytes) / kStretch) make_stretch(offset + bytes);
  char* memory = reinterpret_cast<char*>(header_) + offset;
  const long error = made_ready_ ? 0 : populate(memory, bytes);
  if (error != 0) {
    stop(StopReason::kNoSpace, error == -EFAULT ? ENOSPC : static_cast<int>(-error));
    return nullptr;
  }
  auto* chunk = reinterpret_cast<ChunkHeader*>(memory);
  chunk->thread = thread;
  chunk->bytes = static_cast<uint32_t>(bytes);
  chunk->stamp = stamp;
  __atomic_store_n(&chunk->magic, kChunkMagic, __ATOMIC_RELEASE);
  return reinterpret_cast<uint32_t*>(memory) + kChunkHeaderUnits;
}

// Allocates space in one piece: ext4 then makes the file's pages in two thirds of the time. A
// failure does not matter. The file is opened each time, because the program may close a descriptor
// that is kept, and then use its number for a file of its own.
void RawWriter::make_stretch(uint64_t offset) {
  if (made_ready_ || offset + kStretch > limit_) return;
  const long fd = os::system_call(SYS_openat, AT_FDCWD, os::word(raw_path.c_string()),
                                  O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0);
  if (fd < 0) return;
  (void)os::system_call(SYS_fallocate, fd, 0, static_cast<long>(offset), kStretch);
  os::close_file(static_cast<int>(fd));
}

uint32_t RawWriter::count_thread() {
  return __atomic_fetch_add(&header_->threads, 1, __ATOMIC_RELAXED);
}

void RawWriter::count_dropped(uint64_t calls) {
  if (header_ != nullptr) __atomic_fetch_add(&header_->dropped, calls, __ATOMIC_RELAXED);
}

void RawWriter::stop(StopReason reason, int error) {
  uint32_t none = 0;
  const auto wanted = static_cast<uint32_t>(reason);
  if (!__atomic_compare_exchange_n(&header_->stopped, &none, wanted, false, __ATOMIC_ACQ_REL,
                                   __ATOMIC_RELAXED)) {
    return;
  }
  header_->error = static_cast<uint32_t>(error);
  __atomic_store_n(&header_->stopped_ticks, now_ticks(), __ATOMIC_RELEASE);
}

}  // namespace rdmalloc::trace
