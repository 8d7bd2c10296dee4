#include "allocator/os/limits.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>

#include "allocator/os/confinement.h"
#include "allocator/os/file.h"
#include "allocator/os/keep_errno.h"
#include "allocator/os/memory.h"
#include "allocator/os/system_call.h"

namespace rdmalloc::os {
namespace {

uint64_t from_rlim(rlim_t value) { return value == RLIM_INFINITY ? kNoLimit : value; }

// The kernel checks CAP_IPC_LOCK in the initial user namespace, but a process in its own namespace
// has all capabilities there. uid_map cannot tell the two apart: a namespace may map each user to
// itself. Without /proc, which mostly means a service in a chroot, the capability is trusted. If
// that is wrong, the heap learns it from the kernel's first refusal.
bool is_in_initial_user_namespace() {
  constexpr ino_t kInitial = 0xEFFFFFFD;  // the kernel's PROC_USER_INIT_INO
  struct stat found {};
  const long status =
      system_call(SYS_newfstatat, AT_FDCWD, word("/proc/self/ns/user"), word(&found), 0);
  return status != 0 || found.st_ino == kInitial;
}

bool has_ipc_lock() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2] = {};
  if (syscall(SYS_capget, &header, data) != 0) return false;
  return (data[CAP_IPC_LOCK / 32].effective >> (CAP_IPC_LOCK % 32) & 1) != 0 &&
         is_in_initial_user_namespace();
}

uint64_t meminfo(const char* field) {
  uint64_t kib = 0;
  for_each_line("/proc/meminfo", [&](Text line) { return !parse_field(line, field, &kib); });
  return kib << 10;
}

// The memory left on the machine; kNoLimit if the kernel does not say.
struct MachineLeft {
  uint64_t memory = kNoLimit;
  uint64_t swap = 0;
};

MachineLeft machine_left() {
  MachineLeft left;
  uint64_t kib = 0;
  for_each_line("/proc/meminfo", [&](Text line) {
    if (parse_field(line, "MemAvailable:", &kib)) left.memory = kib << 10;
    const bool is_last = parse_field(line, "SwapFree:", &kib);
    if (is_last) left.swap = kib << 10;
    return !is_last;
  });
  return left;
}

// The limits of one control group that has any.
struct Level {
  uint64_t max = kNoLimit;   // beyond it the kernel kills
  uint64_t high = kNoLimit;  // beyond it the kernel slows down
  uint64_t used = 0;
  uint64_t least_limit() const { return std::min(max, high); }
};

// A memory control group of this process: the limit and the use of each directory, from the
// process's own up to the root of the mount.
class CgroupPath {
 public:
  CgroupPath() {
    if (path_ == nullptr) return;
    for_each_line("/proc/self/cgroup", [this](Text line) { return read_entry(line); });
  }

  bool found() const { return length_ > 0; }

  // Calls visit(level) for each level that has a limit.
  template <typename Visit>
  void for_each_level(Visit visit) {
    while (true) {
      if (const Level level = read_level(); level.least_limit() != kNoLimit) visit(level);
      if (length_ <= root_) return;
      size_t end = length_;
      while (end > root_ && path_[end - 1] != '/') --end;
      length_ = end > root_ ? end - 1 : root_;
    }
  }

  // These concern the level being visited.

  // What the kernel reclaims before it refuses or kills: file pages, whether used lately or not,
  // and its own caches. Version 1 does not report the caches.
  uint64_t reclaimable() {
    const Text name = text("/memory.stat");
    memcpy(path_ + length_, name.data, name.size + 1);
    uint64_t sum = 0;
    const auto add = [&](Text line, const char* field) {
      uint64_t bytes = 0;
      if (parse_field(line, field, &bytes)) sum += bytes;
    };
    for_each_line(path_, [&](Text line) {
      add(line, version1_ ? "total_inactive_file " : "inactive_file ");
      add(line, version1_ ? "total_active_file " : "active_file ");
      if (!version1_) add(line, "slab_reclaimable ");
      return true;
    });
    path_[length_] = '\0';
    return sum;
  }

  // How much of `room` for memory and of `swap` the group may use, given its unreclaimable memory.
  // Version 1 has one limit on both together.
  uint64_t with_swap(uint64_t room, uint64_t swap, uint64_t reclaimable) {
    if (swap == 0) return room;
    uint64_t limit = kNoLimit;
    uint64_t used = 0;
    if (version1_) {
      if (!number("/memory.memsw.limit_in_bytes", &limit)) return room + swap;
      number("/memory.memsw.usage_in_bytes", &used);
      return std::min(room + swap, less(limit, less(used, reclaimable)));
    }
    if (!number("/memory.swap.max", &limit)) return room + swap;
    number("/memory.swap.current", &used);
    return room + std::min(swap, less(limit, used));
  }

  uint64_t id() const {
    struct stat found {};
    const long status = system_call(SYS_newfstatat, AT_FDCWD, word(path_), word(&found), 0);
    return status == 0 ? found.st_ino : 0;
  }

 private:
  static constexpr size_t kLongestPath = 1024;

  bool read_entry(Text line) {
    // "4:memory:/path" is version 1, "0::/path" version 2; version 1 wins where memory is there.
    const void* first = memchr(line.data, ':', line.size);
    if (first == nullptr) return true;
    Text rest = line.drop(static_cast<size_t>(static_cast<const char*>(first) - line.data) + 1);
    const void* second = memchr(rest.data, ':', rest.size);
    if (second == nullptr) return true;
    const auto name_size = static_cast<size_t>(static_cast<const char*>(second) - rest.data);
    const Text names{rest.data, name_size};
    const Text path = rest.drop(name_size + 1);
    if (names == text("memory")) {
      set(text("/sys/fs/cgroup/memory"), path, true);
      return false;
    }
    if (names.size == 0) set(text("/sys/fs/cgroup"), path, false);
    return true;
  }

  void set(Text mount, Text path, bool version1) {
    // In a container the path may be the machine's; then the mount's root is ours.
    version1_ = version1;
    if (mount.size + path.size >= kLongestPath) path = Text{};
    memcpy(path_, mount.data, mount.size);
    if (path.size > 1) memcpy(path_ + mount.size, path.data, path.size);
    root_ = mount.size;
    length_ = mount.size + (path.size > 1 ? path.size : 0);
    path_[length_] = '\0';
    if (access(path_, F_OK) != 0) length_ = root_;
  }

  bool number(const char* file, uint64_t* value) {
    const Text name = text(file);
    memcpy(path_ + length_, name.data, name.size + 1);
    const bool found = read_number(path_, value);
    path_[length_] = '\0';
    return found;
  }

  Level read_level() {
    Level level;
    (void)number(version1_ ? "/memory.limit_in_bytes" : "/memory.max", &level.max);
    // Version 1 reports "no limit" as the largest page multiple of a signed long.
    if (level.max >= (uint64_t{1} << 62)) level.max = kNoLimit;
    if (!version1_) (void)number("/memory.high", &level.high);
    if (level.least_limit() != kNoLimit) {
      (void)number(version1_ ? "/memory.usage_in_bytes" : "/memory.current", &level.used);
    }
    return level;
  }

  static_assert(kLongestPath + 64 <= ReadBuffer::kSize);
  const ReadBuffer memory_;
  char* const path_ = memory_.data();
  size_t root_ = 0;
  size_t length_ = 0;
  bool version1_ = false;
};

}  // namespace

LockLimit lock_limit() {
  const KeepErrno keep;
  if (is_confined()) return remembered_limits().lock;
  LockLimit limit;
  rlimit raw{};
  if (getrlimit(RLIMIT_MEMLOCK, &raw) == 0) {
    limit.soft = from_rlim(raw.rlim_cur);
    limit.hard = from_rlim(raw.rlim_max);
  }
  limit.unlimited_by_right = has_ipc_lock();
  return limit;
}

uint64_t soft_lock_limit() {
  const KeepErrno keep;
  if (is_confined()) return remembered_limits().lock.soft;
  rlimit raw{};
  return getrlimit(RLIMIT_MEMLOCK, &raw) == 0 ? from_rlim(raw.rlim_cur) : 0;
}

uint64_t resident_memory() {
  char buffer[64];
  const ssize_t got = read_file("/proc/self/statm", buffer, sizeof buffer);
  uint64_t mapped = 0;
  uint64_t pages = 0;
  Text rest;
  if (got <= 0 || !parse_decimal(Text{buffer, static_cast<size_t>(got)}, &mapped, &rest)) return 0;
  return parse_decimal(rest.drop(1), &pages, &rest) ? pages * page_size() : 0;
}

uint64_t address_space_left() {
  const KeepErrno keep;
  if (is_confined()) return kNoLimit;
  rlimit raw{};
  if (getrlimit(RLIMIT_AS, &raw) != 0 || raw.rlim_cur == RLIM_INFINITY) return kNoLimit;
  char buffer[64];
  const ssize_t got = read_file("/proc/self/statm", buffer, sizeof buffer);
  uint64_t pages = 0;
  Text rest;
  if (got > 0) (void)parse_decimal(Text{buffer, static_cast<size_t>(got)}, &pages, &rest);
  const uint64_t mapped = pages * page_size();
  return raw.rlim_cur > mapped ? raw.rlim_cur - mapped : 0;
}

uint64_t locked_memory() {
  if (is_confined()) return kNoLimit;
  uint64_t kib = 0;
  for_each_line("/proc/self/status", [&](Text line) { return !parse_field(line, "VmLck:", &kib); });
  return kib << 10;
}

uint64_t total_memory() {
  const uint64_t total = meminfo("MemTotal:");
  return total != 0 ? total : kNoLimit;
}

uint64_t installed_memory() {
  const KeepErrno keep;
  struct sysinfo found {};
  return sysinfo(&found) == 0 ? uint64_t{found.totalram} * found.mem_unit : total_memory();
}

size_t most_mappings() {
  if (is_confined()) return remembered_limits().most_mappings;
  constexpr size_t kUsual = 65530;
  char buffer[32];
  const ssize_t got = read_file("/proc/sys/vm/max_map_count", buffer, sizeof buffer);
  uint64_t most = 0;
  Text rest;
  if (got <= 0 || !parse_decimal(Text{buffer, static_cast<size_t>(got)}, &most, &rest)) {
    return kUsual;
  }
  return most;
}

uint64_t total_swap() { return meminfo("SwapTotal:"); }

Cgroup cgroup() {
  const KeepErrno keep;
  if (is_confined()) return remembered_limits().group;
  CgroupPath path;
  Cgroup found;
  if (!path.found()) return found;
  path.for_each_level([&](const Level& level) {
    found.max = std::min(found.max, level.max);
    if (level.least_limit() >= found.limit) return;
    found.limit = level.least_limit();
    found.id = path.id();
  });
  return found;
}

MemoryLeft memory_left() {
  const KeepErrno keep;
  if (is_confined()) {
    const MemoryLeft& before = remembered_limits().left;
    return {still(before.to_touch), still(before.to_populate)};
  }
  const MachineLeft machine = machine_left();
  MemoryLeft left{machine.memory, machine.memory};
  if (machine.memory != kNoLimit) left.to_touch += machine.swap;
  CgroupPath path;
  if (!path.found()) return left;
  path.for_each_level([&](const Level& level) {
    const uint64_t reclaimable = path.reclaimable();
    const uint64_t kept = less(level.used, reclaimable);
    left.to_populate = std::min(left.to_populate, less(level.least_limit(), kept));
    if (level.max == kNoLimit) return;
    const uint64_t room = path.with_swap(less(level.max, kept), machine.swap, reclaimable);
    left.to_touch = std::min(left.to_touch, room);
  });
  return left;
}

}  // namespace rdmalloc::os
