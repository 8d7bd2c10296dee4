#include "allocator/os/process.h"

#include <errno.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>

#include "allocator/os/system_call.h"

namespace rdmalloc::os {
namespace {

// Fields of stat after the name, counted from the state.
constexpr int kThreads = 18;
constexpr int kStart = 20;

bool is_state_of_dead(char state) { return state == 'Z' || state == 'X' || state == 'x'; }

// "/proc/NUMBER/task/NUMBER/stat": the main thread's, whose start is the process's. Not
// "/proc/NUMBER/stat", which qemu-user makes up for the process itself, with another start than
// other processes read.
class StatPath {
 public:
  explicit StatPath(uint64_t number) {
    const Decimal name(number);
    add("/proc/");
    add(name.c_string());
    add("/task/");
    add(name.c_string());
    add("/stat");
  }
  const char* c_string() const { return path_; }

 private:
  void add(const char* piece) {
    while (*piece != '\0') path_[size_++] = *piece++;
  }
  char path_[64] = {};
  size_t size_ = 0;
};

// *exists: set if the process can be seen.
bool read_start(uint64_t number, uint64_t* start, bool* exists) {
  const ReadBuffer memory;
  char* const stat = memory.data();
  if (stat == nullptr) return false;
  const ssize_t got = read_file(StatPath(number).c_string(), stat, ReadBuffer::kSize);
  *exists = got > 0;
  return got > 0 && parse_start({stat, static_cast<size_t>(got)}, start);
}

}  // namespace

bool read_start(uint64_t number, uint64_t* start) {
  bool exists = false;
  return read_start(number, start, &exists);
}

// A name may hold any byte, including blanks and parentheses: the fields follow the last ')'.
bool parse_start(Text stat, uint64_t* start) {
  const void* end = memrchr(stat.data, ')', stat.size);
  if (end == nullptr) return false;
  Text rest = stat.drop(static_cast<size_t>(static_cast<const char*>(end) - stat.data) + 1);
  bool is_zombie = false;
  uint64_t number = 0;
  for (int field = 1; field <= kStart; ++field) {
    if (rest.size < 2 || rest.data[0] != ' ') return false;
    rest = rest.drop(1);
    if (field == 1) is_zombie = is_state_of_dead(rest.data[0]);
    if (field == kThreads) {
      if (!parse_decimal(rest, &number, &rest)) return false;
      // A zombie main thread may leave other threads running.
      if (is_zombie && number < 2) return false;
    }
    if (field == kStart) return parse_decimal(rest, start, &rest);
    const void* blank = memchr(rest.data, ' ', rest.size);
    if (blank == nullptr) return false;
    rest = rest.drop(static_cast<size_t>(static_cast<const char*>(blank) - rest.data));
  }
  return false;
}

uint64_t process_number() { return static_cast<uint64_t>(system_call(SYS_getpid)); }

Process this_process() {
  Process self;
  self.number = process_number();
  if (!read_start(self.number, &self.start)) self.start = 0;
  return self;
}

// If /proc hides processes, it hides those of other users.
bool is_alive(const Process& process) {
  uint64_t start = 0;
  bool exists = false;
  if (read_start(process.number, &start, &exists)) return start == process.start;
  return !exists && system_call(SYS_kill, static_cast<long>(process.number), 0) == 0;
}

uint64_t process_namespace() {
  struct stat found {};
  const long status =
      system_call(SYS_newfstatat, AT_FDCWD, word("/proc/self/ns/pid"), word(&found), 0);
  return status == 0 ? found.st_ino : 0;
}

uint64_t effective_user() { return static_cast<uint64_t>(system_call(SYS_geteuid)); }

uint64_t parent_number() { return static_cast<uint64_t>(system_call(SYS_getppid)); }

void machine_name(char* out, size_t size) {
  utsname names{};
  if (system_call(SYS_uname, word(&names)) != 0) names.nodename[0] = '\0';
  size_t length = 0;
  for (; length + 1 < size && names.nodename[length] != '\0'; ++length) {
    out[length] = names.nodename[length];
  }
  out[length] = '\0';
}

}  // namespace rdmalloc::os
