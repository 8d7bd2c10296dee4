// The io_uring backend on the kernel's own rings. Skipped with a reason if there are none.
#include "regcache/backends/io_uring/backend.h"

#include <dirent.h>
#include <errno.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "allocator/os/limits.h"
#include "allocator/os/newer_headers.h"
#include "tests/support/catch.h"
#include "tests/support/child.h"
#include "tests/support/comes.h"

#if __has_include(<linux/io_uring.h>)
#include <linux/io_uring.h>

namespace rdmalloc::os {
static_assert(sizeof(IoUringTable) == sizeof(io_uring_rsrc_register));
static_assert(sizeof(IoUringUpdate) == sizeof(io_uring_rsrc_update2));
static_assert(offsetof(IoUringUpdate, slots) == offsetof(io_uring_rsrc_update2, nr));
static_assert(sizeof(IoUringParameters) == sizeof(io_uring_params));
static_assert(offsetof(IoUringParameters, ring) == offsetof(io_uring_params, sq_off));
static_assert(offsetof(IoUringParameters::SubmissionRing, array) ==
              offsetof(io_sqring_offsets, array));
static_assert(sizeof(IoUringSubmission) == sizeof(io_uring_sqe));
static_assert(offsetof(IoUringSubmission, length) == offsetof(io_uring_sqe, len));
}  // namespace rdmalloc::os
#endif

using rdmalloc::explain_io_uring_failure;
using rdmalloc::IoUringBackend;
using rdmalloc::IoUringSlots;
using rdmalloc::IoUringStep;
using rdmalloc::os::IoUringOperation;
using rdmalloc::test::comes;
using rdmalloc::test::run_child;

namespace {

constexpr size_t kSize = size_t{256} << 10;
constexpr unsigned kSingleIssuer = 1U << 12;  // IORING_SETUP_SINGLE_ISSUER, since Linux 6.0

int set_up_ring(unsigned flags = 0) {
  rdmalloc::os::IoUringParameters parameters{};
  parameters.flags = flags;
  return static_cast<int>(syscall(SYS_io_uring_setup, 1, &parameters));
}

bool skipped() {
  const int ring = set_up_ring();
  if (ring >= 0) {
    close(ring);
    return false;
  }
  printf("SKIPPED: no io_uring here: %s\n", strerror(errno));
  return true;
}

// For cases that register memory: a MiB at most.
bool skipped_without_memlock() {
  if (skipped()) return true;
  const uint64_t limit = rdmalloc::os::lock_limit().effective();
  if (limit >= 4 * kSize) return false;
  printf("SKIPPED: the memlock limit is %zu KiB\n", static_cast<size_t>(limit >> 10));
  return true;
}

int register_table(int ring, unsigned slots) {
  rdmalloc::os::IoUringTable table{};
  table.slots = slots;
  const long result = syscall(SYS_io_uring_register, ring, IoUringOperation::kRegisterBuffers2,
                              &table, sizeof table);
  return result == 0 ? 0 : errno;
}

// A ring that is closed at the end.
struct Ring {
  explicit Ring(unsigned flags = 0) : fd(set_up_ring(flags)) {}
  ~Ring() { close(fd); }
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;
  const int fd;
};

// A backend, or the reason why there is none.
struct Opened {
  explicit Opened(int ring, unsigned first_slot = 0, unsigned slots = 0) {
    char text[512] = {};
    status = IoUringBackend::create(ring, first_slot, slots, &backend, text, sizeof text);
    why = text;
  }
  ~Opened() {
    if (backend != nullptr) IoUringBackend::destroy(backend, false);
  }
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;

  bool says(const char* word) const { return why.find(word) != std::string::npos; }

  int add(void* base, rdm_backend_key* key) {
    rdm_backend_request request{};
    request.base = base;
    request.length = kSize;
    request.page_size = 4096;
    request.pinned = 1;
    char text[512] = {};
    const int result = backend->register_memory(request, key, text, sizeof text);
    why = text;
    return result;
  }

  IoUringBackend* backend = nullptr;
  int status;
  std::string why;
};

struct Memory {
  Memory()
      : base(mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {}
  ~Memory() { munmap(base, kSize); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  void* const base;
};

int entries_of(const char* folder) {
  DIR* opened = opendir(folder);
  int count = 0;
  while (readdir(opened) != nullptr) ++count;
  closedir(opened);
  return count;
}

std::string explain(IoUringStep step, int error, int* status) {
  char why[512] = {};
  *status = explain_io_uring_failure(step, error, kSize, why, sizeof why);
  return why;
}

}  // namespace

// The public function is linked too, but not called here.
extern "C" int rdm_domain_open(const rdm_backend*, void*, const rdm_domain_options*, rdm_domain**) {
  return RDM_UNSUPPORTED;
}

TEST_CASE("every registration has a slot of its own, and gives it back") {
  if (skipped_without_memlock()) return;
  const Ring ring;
  const Memory memory;
  Opened domain(ring.fd);
  REQUIRE(domain.status == RDM_OK);
  rdm_backend_key keys[3] = {};
  for (rdm_backend_key& key : keys) REQUIRE(domain.add(memory.base, &key) == RDM_OK);
  CHECK(std::set<uint32_t>{keys[0].lkey, keys[1].lkey, keys[2].lkey}.size() == 3);
  REQUIRE(domain.backend->deregister_memory(keys[1]) == RDM_OK);
  rdm_backend_key again{};
  REQUIRE(domain.add(memory.base, &again) == RDM_OK);
  CHECK(again.lkey == keys[1].lkey);
}

TEST_CASE("a table that the domain registered is unregistered when the domain ends") {
  if (skipped()) return;
  const Ring ring;
  {
    const Opened domain(ring.fd);
    REQUIRE(domain.status == RDM_OK);
    CHECK(register_table(ring.fd, 1) == EBUSY);
  }
  CHECK(register_table(ring.fd, 1) == 0);
}

TEST_CASE("of the caller's table only the slots that were named are used") {
  if (skipped_without_memlock()) return;
  const Ring ring;
  const Memory memory;
  REQUIRE(register_table(ring.fd, 8) == 0);
  {
    Opened domain(ring.fd, 5, 2);
    REQUIRE(domain.status == RDM_OK);
    rdm_backend_limits limits{};
    domain.backend->limits(&limits);
    CHECK(limits.max_count == 2);
    rdm_backend_key keys[3] = {};
    REQUIRE(domain.add(memory.base, &keys[0]) == RDM_OK);
    REQUIRE(domain.add(memory.base, &keys[1]) == RDM_OK);
    CHECK(keys[0].lkey == 5);
    CHECK(keys[1].lkey == 6);
    CHECK(domain.add(memory.base, &keys[2]) == RDM_SYSTEM);
    CHECK(domain.says("full"));
  }
  // It still belongs to the caller.
  CHECK(register_table(ring.fd, 1) == EBUSY);
}

TEST_CASE("a ring that cannot be used is refused with a sentence") {
  if (skipped()) return;
  const Ring ring;
  const Ring with_table;
  REQUIRE(register_table(with_table.fd, 8) == 0);
  const auto refused = [](int fd, unsigned first, unsigned slots, const char* word) {
    const Opened domain(fd, first, slots);
    INFO(domain.why);
    CHECK(domain.status == RDM_INVALID);
    CHECK(domain.says(word));
  };
  refused(with_table.fd, 0, 0, "first_slot");
  refused(with_table.fd, 4, 5, "fewer slots");
  refused(ring.fd, 0, 4, "no table");
  refused(ring.fd, 3, 0, "slots is 0");
  refused(ring.fd, 1, IoUringSlots::kMost, "largest table");
  refused(ring.fd, ~0U, 2, "largest table");
  refused(-2, 0, 0, "negative");
  refused(-1, 0, 4, "a ring of the caller's");
  refused(9999, 0, 0, "not open");
  int pipes[2];
  REQUIRE(pipe(pipes) == 0);
  refused(pipes[0], 0, 0, "not one of an io_uring");
  close(pipes[0]);
  close(pipes[1]);
}

TEST_CASE("a ring for a single issuer is served in the issuer's thread only") {
  if (skipped_without_memlock()) return;
  const Ring ring(kSingleIssuer);
  if (ring.fd < 0) {
    printf("SKIPPED: io_uring has no rings for a single issuer here (Linux 6.0)\n");
    return;
  }
  const Memory memory;
  std::thread([&] {
    const Opened elsewhere(ring.fd);
    CHECK(elsewhere.status == RDM_INVALID);
    CHECK(elsewhere.says("single issuer"));
  }).join();
  Opened domain(ring.fd);
  REQUIRE(domain.status == RDM_OK);
  rdm_backend_key key{};
  std::thread([&] { CHECK(domain.add(memory.base, &key) == RDM_BACKEND_LATER); }).join();
  CHECK(domain.add(memory.base, &key) == RDM_OK);
  CHECK(key.lkey == 0);
}

TEST_CASE("a ring of our own has no descriptor and lives as long as its domain") {
  if (skipped_without_memlock()) return;
  const int descriptors = entries_of("/proc/self/fd");
  const int threads = entries_of("/proc/self/task");
  const Memory memory;
  {
    Opened domain(-1);
    REQUIRE(domain.status == RDM_OK);
    CHECK(entries_of("/proc/self/fd") == descriptors);
    CHECK(entries_of("/proc/self/task") == threads + 1);
    rdm_backend_key key{};
    REQUIRE(domain.add(memory.base, &key) == RDM_OK);
    REQUIRE(domain.backend->deregister_memory(key) == RDM_OK);
  }
  // A thread that was joined is listed for a moment longer.
  CHECK(comes([&] { return entries_of("/proc/self/task") == threads; }));
}

TEST_CASE("several threads register through a ring of our own at the same time") {
  if (skipped()) return;
  const Memory memory;
  Opened domain(-1);
  REQUIRE(domain.status == RDM_OK);
  std::atomic<int> failures{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 200; ++round) {
        rdm_backend_request request{};
        request.base = memory.base;
        request.length = 4096;
        rdm_backend_key key{};
        char why[256];
        if (domain.backend->register_memory(request, &key, why, sizeof why) != RDM_OK) ++failures;
        if (domain.backend->deregister_memory(key) != RDM_OK) ++failures;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(failures == 0);
}

TEST_CASE("a forked child forgets its parent's domain and harms it not") {
  if (skipped_without_memlock()) return;
  const Ring ring;
  const Memory memory;
  Opened domain(ring.fd);
  REQUIRE(domain.status == RDM_OK);
  rdm_backend_key key{};
  REQUIRE(domain.add(memory.base, &key) == RDM_OK);
  CHECK(run_child([&] { IoUringBackend::destroy(domain.backend, true); }).exited_well());
  CHECK(domain.backend->deregister_memory(key) == RDM_OK);
}

TEST_CASE("slots are given to one thread each") {
  constexpr unsigned kCount = 130;
  IoUringSlots slots;
  slots.set_count(kCount);
  std::vector<int> taken[4];
  std::vector<std::thread> threads;
  for (std::vector<int>& mine : taken) {
    threads.emplace_back([&slots, &mine] {
      for (int slot = slots.take(); slot >= 0; slot = slots.take()) mine.push_back(slot);
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::set<int> all;
  size_t sum = 0;
  for (const std::vector<int>& mine : taken) {
    all.insert(mine.begin(), mine.end());
    sum += mine.size();
  }
  CHECK(sum == kCount);
  CHECK(all.size() == kCount);
  CHECK(*all.rbegin() == kCount - 1);
  slots.put_back(77);
  CHECK(slots.take() == 77);
  CHECK(slots.take() == -1);
}

TEST_CASE("failures of io_uring are told apart by cause") {
  int status = 0;
  CHECK(explain(IoUringStep::kSetup, EPERM, &status).find("io_uring_disabled") !=
        std::string::npos);
  CHECK(status == RDM_UNSUPPORTED);
  CHECK(explain(IoUringStep::kTable, EINVAL, &status).find("5.19") != std::string::npos);
  CHECK(status == RDM_UNSUPPORTED);
  CHECK(explain(IoUringStep::kBuffer, EFAULT, &status).find("not mapped or not writable") !=
        std::string::npos);
  CHECK(status == RDM_SYSTEM);
  CHECK(explain(IoUringStep::kBuffer, EINVAL, &status).find("register its parts") !=
        std::string::npos);
  CHECK(status == RDM_SYSTEM);
  CHECK(explain(IoUringStep::kBuffer, EOPNOTSUPP, &status)
            .find("a file that the kernel does not pin") != std::string::npos);
  CHECK(status == RDM_SYSTEM);
  CHECK(explain(IoUringStep::kBuffer, EIO, &status).find("Input/output error") !=
        std::string::npos);
  CHECK(status == RDM_SYSTEM);
  CHECK(explain(IoUringStep::kBuffer, EEXIST, &status).empty());
  CHECK(status == RDM_BACKEND_LATER);
  CHECK(explain(IoUringStep::kSetup, EAGAIN, &status).find("ulimit -u") != std::string::npos);
  CHECK(explain(IoUringStep::kSetup, EMFILE, &status).find("ulimit -n") != std::string::npos);
  CHECK(explain(IoUringStep::kTable, EACCES, &status).find("restrictions") != std::string::npos);
  CHECK(status == RDM_INVALID);
  const std::string memory = explain(IoUringStep::kBuffer, ENOMEM, &status);
  CHECK(memory.find("256 KiB") != std::string::npos);
  CHECK((status == RDM_OUT_OF_BUDGET) == (memory.find("ulimit -l") != std::string::npos));
  CHECK((status == RDM_SYSTEM) == (memory.find("no limit") != std::string::npos));
}
