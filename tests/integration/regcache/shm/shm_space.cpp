// Segments when /dev/shm is small, its files belong to another user, or a process has no room for
// them. The first three need root: they mount their own /dev/shm and change user.
//
//   shm_space small      a segment that cannot fit is refused, with advice
//   shm_space late       space that has gone when one rank needs it makes all ranks fail; none dies
//   shm_space owner      nobody attaches to another user's segment, not even root
//   shm_space mapping    one rank that cannot map it makes all ranks fail, soon
//   shm_space memory     one rank whose malloc fails makes all ranks fail, soon
//   shm_space file_size  a file size limit results in a status, not a signal
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include <chrono>
#include <thread>

#include "tests/integration/regcache/shm/shm_launch.h"

using namespace shm_test;

namespace {

constexpr int kSkipped = 77;
int allocations_left = -1;  // of aligned_alloc(); below 0: unlimited
constexpr uid_t kNobody = 65534;

// A /dev/shm that only this process sees.
void mount_small(const char* size) {
  if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      mount("tmpfs", "/dev/shm", "tmpfs", 0, size) != 0) {
    printf("SKIPPED: cannot mount a small /dev/shm here: this needs root and mount namespaces\n");
    exit(kSkipped);
  }
}

void expect(bool is_right, const char* what) {
  if (!is_right) broken("%s: %s", what, rdm_shm_last_error());
}

int small() {
  char size[64];
  snprintf(size, sizeof size, "size=%ld,mode=1777", 64 * sysconf(_SC_PAGESIZE));
  mount_small(size);
  rdm_shm* shm = nullptr;
  const rdm_shm_plan_options plan = plan_for(16, RDM_SHM_PAGE);
  expect(rdm_shm_create("s", &plan, 0, nullptr, &shm) == RDM_OUT_OF_BUDGET, "it was not refused");
  expect(strstr(rdm_shm_last_error(), "remount,size=") != nullptr, "it does not say what to do");
  expect(!is_in_dev_shm("s"), "it left its name");
  // The same ranks fit with another layout.
  const rdm_shm_plan_options lean = plan_for(4, RDM_SHM_MPSC);
  expect(rdm_shm_create("s", &lean, 0, nullptr, &shm) == RDM_OK, "a small one was refused");
  rdm_shm_detach(shm);
  return is_in_dev_shm("s") ? 1 : 0;
}

// Fills the remaining space.
void fill() {
  const int descriptor = open("/dev/shm/filler", O_CREAT | O_WRONLY, 0600);
  char page[4096];
  memset(page, 1, sizeof page);
  while (write(descriptor, page, sizeof page) == sizeof page) {
  }
  close(descriptor);
}

int late() {
  mount_small("size=4m,mode=1777");
  const rdm_shm_plan_options plan = plan_for(3, RDM_SHM_PAGE);
  const rdm_shm_options options = patience(10'000);
  rdm_shm *first = nullptr, *second = nullptr, *third = nullptr;
  expect(rdm_shm_create("s", &plan, 0, &options, &first) == RDM_OK, "creating");
  expect(rdm_shm_attach("s", 1, &options, &second) == RDM_OK, "attaching");
  fill();
  int verdict = -1;
  std::thread other([&] { verdict = rdm_shm_commit(second, RDM_OK); });
  expect(rdm_shm_attach("s", 2, &options, &third) == RDM_OUT_OF_BUDGET, "the third had space");
  expect(rdm_shm_commit(first, RDM_OK) == RDM_OUT_OF_BUDGET, "the first was not told");
  expect(strstr(rdm_shm_last_error(), "rank 2") != nullptr, "it was not told of whom");
  other.join();
  expect(verdict == RDM_OUT_OF_BUDGET, "the second was not told");
  expect(!is_in_dev_shm("s"), "it left its name");
  rdm_shm_detach(first);
  rdm_shm_detach(second);
  return 0;
}

// In a process of that user: attaches to the segment as rank 1.
int attach_as(uid_t user, const char* name) {
  const ChildEnd end = run_child([=] {
    if (user != geteuid() && setuid(user) != 0) return 9;
    const rdm_shm_options options = patience(100);
    rdm_shm* shm = nullptr;
    const int status = rdm_shm_attach(name, 1, &options, &shm);
    if (status == RDM_OK) rdm_shm_detach(shm);
    return status;
  });
  return end.status();
}

int owner() {
  mount_small("size=8m,mode=1777");
  rdm_shm* shm = nullptr;
  const rdm_shm_plan_options plan = plan_for(2, RDM_SHM_AGGREGATED);
  expect(rdm_shm_create("ours", &plan, 0, nullptr, &shm) == RDM_OK, "creating");
  expect(attach_as(kNobody, "ours") == RDM_INVALID, "nobody attached to root's");
  expect(chown("/dev/shm/ours", kNobody, kNobody) == 0, "chown");
  expect(attach_as(0, "ours") == RDM_INVALID, "root attached to nobody's");
  expect(chown("/dev/shm/ours", 0, 0) == 0, "chown back");
  expect(attach_as(0, "ours") == RDM_OK,
         "root's own was refused");  // which shows what made it fail
  rdm_shm_detach(shm);
  return is_in_dev_shm("ours") ? 1 : 0;
}

// Another process's limit, `more` bytes above what it has mapped.
void limit_address_space(size_t more) {
  FILE* file = fopen("/proc/self/statm", "r");
  unsigned long pages = 0;
  if (file == nullptr || fscanf(file, "%lu", &pages) != 1) broken("/proc/self/statm");
  fclose(file);
  const rlim_t most = pages * static_cast<rlim_t>(getpagesize()) + more;
  const rlimit limit = {most, most};
  if (setrlimit(RLIMIT_AS, &limit) != 0) broken("RLIMIT_AS");
}

// Rank 1 attaches after `prepare`, which makes it fail with that status and message; rank 0 gets
// the same, before its timeout.
template <typename Prepare>
void expect_all_fail(const char* what, const char* sentence, Prepare prepare) {
  constexpr unsigned kPatienceMs = 60'000;
  const std::string name = fresh_name(what);
  rdm_shm_plan_options plan = plan_for(2, RDM_SHM_AGGREGATED);
  plan.chunk_size = 8 << 20;
  plan.max_fragments = 1;
  const rdm_shm_options options = patience(kPatienceMs);
  rdm_shm* shm = nullptr;
  expect(rdm_shm_create(name.c_str(), &plan, 0, &options, &shm) == RDM_OK, "creating");
  const pid_t child = fork();
  if (child == 0) {
    prepare();
    rdm_shm* other = nullptr;
    const int status = rdm_shm_attach(name.c_str(), 1, &options, &other);
    _exit(strstr(rdm_shm_last_error(), sentence) != nullptr ? status : 99);
  }
  const auto start = std::chrono::steady_clock::now();
  expect(rdm_shm_commit(shm, RDM_OK) == RDM_SYSTEM, "the creator was not told");
  expect(std::chrono::steady_clock::now() - start < std::chrono::milliseconds(kPatienceMs / 2),
         "it was told late");
  expect(strstr(rdm_shm_last_error(), "rank 1") != nullptr, "it was not told of whom");
  expect(end_of(child).status() == RDM_SYSTEM, "the other did not fail as it should");
  expect(!is_in_dev_shm(name), "it left its name");
  rdm_shm_detach(shm);
}

int mapping() {
  expect_all_fail("mapping", "cannot map", [] { limit_address_space(4 << 20); });
  return 0;
}

// The library's own memory, for what it knows of the segment, peers, fragments and boxes.
int memory() {
  for (int last = 0; last < 4; ++last) {
    expect_all_fail("memory", "no memory", [last] { allocations_left = last; });
  }
  return 0;
}

int file_size() {
  const std::string name = fresh_name("file-size");
  const rdm_shm_plan_options plan = plan_for(2, RDM_SHM_AGGREGATED);
  rdm_shm *first = nullptr, *second = nullptr;
  rlimit limit = {65536, RLIM_INFINITY};
  getrlimit(RLIMIT_FSIZE, &limit);
  limit.rlim_cur = 65536;
  expect(setrlimit(RLIMIT_FSIZE, &limit) == 0, "RLIMIT_FSIZE");
  expect(rdm_shm_create(name.c_str(), &plan, 0, nullptr, &first) == RDM_OUT_OF_BUDGET,
         "it was not refused");
  expect(strstr(rdm_shm_last_error(), "ulimit -f") != nullptr, "it does not say what to do");
  expect(!is_in_dev_shm(name), "it left its name");
  limit.rlim_cur = limit.rlim_max;
  expect(setrlimit(RLIMIT_FSIZE, &limit) == 0, "RLIMIT_FSIZE");
  expect(rdm_shm_create(name.c_str(), &plan, 0, nullptr, &first) == RDM_OK, "creating");
  // Attaching does not extend the file.
  limit.rlim_cur = 65536;
  expect(setrlimit(RLIMIT_FSIZE, &limit) == 0, "RLIMIT_FSIZE");
  expect(rdm_shm_attach(name.c_str(), 1, nullptr, &second) == RDM_OK, "attaching");
  rdm_shm_detach(second);
  rdm_shm_detach(first);
  return is_in_dev_shm(name) ? 1 : 0;
}

}  // namespace

// Replaces the C library's, for the segment library too.
extern "C" void* aligned_alloc(size_t alignment, size_t size) {
  if (allocations_left == 0) return nullptr;
  if (allocations_left > 0) --allocations_left;
  void* memory = nullptr;
  return posix_memalign(&memory, alignment, size) == 0 ? memory : nullptr;
}

int main(int count, char** argument) {
  const std::string what = count == 2 ? argument[1] : "";
  if (what == "small") return small();
  if (what == "late") return late();
  if (what == "owner") return owner();
  if (what == "mapping") return mapping();
  if (what == "memory") return memory();
  if (what == "file_size") return file_size();
  fprintf(stderr, "usage: shm_space small|late|owner|mapping|memory|file_size\n");
  return 2;
}
