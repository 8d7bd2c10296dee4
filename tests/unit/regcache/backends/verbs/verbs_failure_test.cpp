// Why a registration failed: each cause has its message.
#include <errno.h>
#include <linux/capability.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <string>

#include "allocator/os/memory.h"
#include "regcache/backends/verbs/backend.h"
#include "tests/support/catch.h"

namespace rdmalloc {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

// A small RLIMIT_MEMLOCK without CAP_IPC_LOCK, for the life of the object.
class SmallMemlock {
 public:
  explicit SmallMemlock(rlim_t bytes) {
    getrlimit(RLIMIT_MEMLOCK, &limit_);
    rlimit small = limit_;
    small.rlim_cur = bytes;
    setrlimit(RLIMIT_MEMLOCK, &small);
    syscall(SYS_capget, &header_, data_);
    __user_cap_data_struct less[2] = {data_[0], data_[1]};
    less[CAP_IPC_LOCK / 32].effective &= ~(1U << (CAP_IPC_LOCK % 32));
    syscall(SYS_capset, &header_, less);
  }
  ~SmallMemlock() {
    syscall(SYS_capset, &header_, data_);
    setrlimit(RLIMIT_MEMLOCK, &limit_);
  }
  SmallMemlock(const SmallMemlock&) = delete;
  SmallMemlock& operator=(const SmallMemlock&) = delete;

 private:
  rlimit limit_{};
  __user_cap_header_struct header_{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data_[2] = {};
};

struct Pages {
  explicit Pages(size_t size) : bytes(size) {
    base = static_cast<char*>(
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    REQUIRE(base != MAP_FAILED);
  }
  ~Pages() { munmap(base, bytes); }
  const size_t bytes;
  char* base;
};

struct Explained {
  int status;
  std::string why;
  bool says(const std::string& words) const { return why.find(words) != std::string::npos; }
};

Explained explain(VerbsAttempt attempt) {
  char why[320] = {};
  const int status = explain_verbs_failure(attempt, why, sizeof why);
  INFO(why);
  // The message is not truncated.
  CHECK(strlen(why) > 0);
  CHECK(strlen(why) < sizeof why - 1);
  return {status, why};
}

VerbsAttempt attempt_on(const Pages& pages, int error) {
  return {pages.base, pages.bytes, IBV_ACCESS_LOCAL_WRITE, error, 3, 100};
}

}  // namespace

TEST_CASE("no memory above the memlock limit gives the limit, the need and the ways to raise it") {
  const size_t page = os::page_size();
  const Pages pages(8 * page);
  const SmallMemlock small(4 * page);
  const Explained explained = explain(attempt_on(pages, ENOMEM));
  CHECK(explained.status == RDM_OUT_OF_BUDGET);
  CHECK(explained.says(std::to_string(4 * page >> 10) + " KiB"));
  CHECK(explained.says(std::to_string(8 * page >> 10) + " KiB"));
  CHECK(explained.says("ulimit -l"));
  CHECK(explained.says("cap_ipc_lock"));
}

TEST_CASE("the limit is compared in whole pages, itself included") {
  const Pages pages(3 * os::page_size());
  VerbsAttempt attempt = attempt_on(pages, ENOMEM);
  attempt.base = pages.base + os::page_size() - 8;
  attempt.length = 16;
  {
    const SmallMemlock two(2 * os::page_size());
    CHECK(explain(attempt).status == RDM_SYSTEM);
  }
  const SmallMemlock less(2 * os::page_size() - 1);
  CHECK(explain(attempt).status == RDM_OUT_OF_BUDGET);
}

TEST_CASE("no memory below the memlock limit is not blamed on it") {
  const Pages pages(8 * os::page_size());
  const SmallMemlock small(8 * os::page_size());
  const Explained explained = explain(attempt_on(pages, ENOMEM));
  CHECK(explained.status == RDM_SYSTEM);
  CHECK(explained.says("device or the kernel is out of memory"));
}

TEST_CASE("paging on demand is not held against the memlock limit") {
  const Pages pages(kMiB);
  const SmallMemlock small(os::page_size());
  VerbsAttempt attempt = attempt_on(pages, ENOMEM);
  attempt.access |= IBV_ACCESS_ON_DEMAND;
  CHECK(explain(attempt).status == RDM_SYSTEM);
}

TEST_CASE("no memory with all memory regions taken says so") {
  const Pages pages(os::page_size());
  const SmallMemlock small(kMiB);
  VerbsAttempt attempt = attempt_on(pages, ENOMEM);
  attempt.count = 5;
  attempt.max_count = 6;
  const Explained explained = explain(attempt);
  CHECK(explained.status == RDM_SYSTEM);
  CHECK(explained.says("out of memory regions"));
  CHECK(explained.says("5 of the 6"));
}

TEST_CASE("a fault names the hole, and where it is") {
  const Pages pages(4 * os::page_size());
  CHECK(explain(attempt_on(pages, EFAULT)).says("all of it is mapped"));
  mprotect(pages.base + 2 * os::page_size(), os::page_size(), PROT_READ);
  const Explained read_only = explain(attempt_on(pages, EFAULT));
  CHECK(read_only.status == RDM_SYSTEM);
  CHECK(read_only.says("may not be written from offset " + std::to_string(2 * os::page_size())));
  VerbsAttempt reading = attempt_on(pages, EFAULT);
  reading.access = 0;
  CHECK(explain(reading).says("all of it is mapped"));
  mprotect(pages.base + os::page_size(), os::page_size(), PROT_NONE);
  CHECK(explain(attempt_on(pages, EFAULT))
            .says("may not be read from offset " + std::to_string(os::page_size())));
  munmap(pages.base, os::page_size());
  CHECK(explain(attempt_on(pages, EFAULT)).says("is not mapped from offset 0"));
}

TEST_CASE("what a driver cannot do is told apart from what it refuses") {
  const Pages pages(os::page_size());
  CHECK(explain(attempt_on(pages, EOPNOTSUPP)).status == RDM_UNSUPPORTED);
  CHECK(explain(attempt_on(pages, ENOSYS)).status == RDM_UNSUPPORTED);
  CHECK(explain(attempt_on(pages, EINVAL)).says("invalid"));
  CHECK(explain(attempt_on(pages, EPERM)).says("forbids"));
  CHECK(explain(attempt_on(pages, EIO)).says("gone"));
  CHECK(explain(attempt_on(pages, EBUSY)).says("busy"));
}

TEST_CASE("what a driver will refuse each time is not to be tried again") {
  const Pages pages(os::page_size());
  for (const int error : {EINVAL, EPERM, EACCES, EIO, ENODEV}) {
    CHECK(explain(attempt_on(pages, error)).status == RDM_BACKEND_NEVER);
  }
  CHECK(explain(attempt_on(pages, EBUSY)).status == RDM_SYSTEM);
  CHECK(explain(attempt_on(pages, EAGAIN)).status == RDM_SYSTEM);
}

TEST_CASE("a short buffer cuts the sentence and nothing else") {
  const Pages pages(os::page_size());
  char why[8] = "0123456";
  CHECK(explain_verbs_failure(attempt_on(pages, EBUSY), why, 4) == RDM_SYSTEM);
  CHECK(why[3] == '\0');
  CHECK(why[4] == '4');
  CHECK(explain_verbs_failure(attempt_on(pages, EFAULT), nullptr, 0) == RDM_SYSTEM);
}

}  // namespace rdmalloc
