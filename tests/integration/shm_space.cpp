// Segments where /dev/shm is small, or its files another user's. Needs root: it mounts a /dev/shm
// of its own, and becomes somebody else.
//
//   shm_space small    a segment that cannot fit is refused, and says what to do
//   shm_space late     space that is gone when one rank needs it makes all ranks fail, and none
//   dies shm_space owner    nobody attaches to another user's segment, not even root
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>

#include <thread>

#include "tests/integration/shm_launch.h"

using namespace shm_test;

namespace {

constexpr int kSkipped = 77;
constexpr uid_t kNobody = 65534;

// A /dev/shm that only this process sees.
void mount_small(const char* size) {
  if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      mount("tmpfs", "/dev/shm", "tmpfs", 0, size) != 0) {
    printf("cannot mount a small /dev/shm here: this needs root and mount namespaces\n");
    exit(kSkipped);
  }
}

void expect(bool is_right, const char* what) {
  if (!is_right) broken("%s: %s", what, rdm_shm_last_error());
}

int small() {
  mount_small("size=256k,mode=1777");
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

// Fills what is left.
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
  const pid_t child = fork();
  if (child == 0) {
    if (user != geteuid() && setuid(user) != 0) _exit(9);
    const rdm_shm_options options = patience(100);
    rdm_shm* shm = nullptr;
    const int status = rdm_shm_attach(name, 1, &options, &shm);
    if (status == RDM_OK) rdm_shm_detach(shm);
    _exit(status);
  }
  return end_of(child);
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

}  // namespace

int main(int count, char** argument) {
  const std::string what = count == 2 ? argument[1] : "";
  if (what == "small") return small();
  if (what == "late") return late();
  if (what == "owner") return owner();
  fprintf(stderr, "usage: shm_space small|late|owner\n");
  return 2;
}
