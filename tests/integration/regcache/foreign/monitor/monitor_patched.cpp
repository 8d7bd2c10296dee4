// Libraries that overwrite the first instructions of functions with a jump to their own. What they
// do with munmap, which the dynamic linker binds to us, decides whether registrations may be kept.
//
//   monitor_patched lost       their function unmaps by its own system-call instruction
//   monitor_patched forwarded  it calls syscall(), as Open MPI's memory patcher does
//   monitor_patched writable   they have made the code writable, but changed nothing yet
//   monitor_patched break      only brk is lost: memory below the program break is not kept
//   monitor_patched sly        as lost, but written through /proc/self/mem
//   monitor_patched bound      UCX rewrites symbol bindings, so that calls bypass us
//   monitor_patched ucx [MONITOR]  UCX's memory hooks are active: UCX and we both notice a change
#include <errno.h>

#include "tests/integration/regcache/foreign/foreign.h"
#include "tests/integration/regcache/foreign/monitor/memory_calls.h"

namespace {

const size_t kLength = 16 * probe::kPage;

probe::Verdict verdict;
probe::ForeignDevice* device = nullptr;

char* fresh() {
  char* const memory = probe::map_pages(kLength);
  memset(memory, 1, kLength);
  return memory;
}

void use(void* memory, size_t length) {
  rdm_mr mr{};
  if (device->get(memory, length, &mr) != RDM_OK || device->put(mr) != RDM_OK) {
    verdict.broken("registering: %s", probe::foreign().last_error());
  }
}

// Whether an idle registration is kept.
bool is_kept(void* memory, size_t length = kLength) {
  use(memory, length);
  const uint64_t hits = probe::stats().foreign_hits;
  use(memory, length);
  return probe::stats().foreign_hits > hits;
}

int lost_munmap(void* at, size_t length) {
  return static_cast<int>(probe::raw_call(SYS_munmap, reinterpret_cast<uintptr_t>(at), length));
}
int forwarding_munmap(void* at, size_t length) {
  return static_cast<int>(syscall(SYS_munmap, at, length));
}
int lost_brk(void* end) {
  return probe::raw_call(SYS_brk, reinterpret_cast<uintptr_t>(end)) < 0 ? -1 : 0;
}

#if defined(__x86_64__)
constexpr size_t kJump = 12;
void make_jump(unsigned char* out, const void* to) {
  out[0] = 0x48;  // mov $to, %rax; jmp *%rax
  out[1] = 0xb8;
  memcpy(out + 2, &to, sizeof to);
  out[10] = 0xff;
  out[11] = 0xe0;
}
#else
constexpr size_t kJump = 16;
void make_jump(unsigned char* out, const void* to) {
  const uint32_t code[] = {0x58000051, 0xd61f0220};  // ldr x17, .+8; br x17
  memcpy(out, code, sizeof code);
  memcpy(out + sizeof code, &to, sizeof to);
}
#endif

void* page_of(const void* code) {
  return reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(code) & ~(probe::kPage - 1));
}

void* code_of(const char* function) {
  void* const code = dlsym(RTLD_DEFAULT, function);
  Dl_info where{};
  if (dladdr(code, &where) == 0 || strstr(where.dli_fname, "librdmalloc") == nullptr) {
    verdict.broken("%s is not the library's", function);
    _exit(verdict.status());
  }
  return code;
}

void patch(const char* function, const void* to) {
  void* const code = code_of(function);
  unsigned char jump[kJump];
  make_jump(jump, to);
  if (mprotect(page_of(code), 2 * probe::kPage, PROT_READ | PROT_WRITE | PROT_EXEC) != 0) {
    probe::skip("code cannot be made writable here");
  }
  memcpy(code, jump, sizeof jump);
  __builtin___clear_cache(static_cast<char*>(code), static_cast<char*>(code) + kJump);
  mprotect(page_of(code), 2 * probe::kPage, PROT_READ | PROT_EXEC);
}

void patch_unseen(const char* function, const void* to) {
  void* const code = code_of(function);
  unsigned char jump[kJump];
  make_jump(jump, to);
  const int fd = open("/proc/self/mem", O_WRONLY | O_CLOEXEC);
  if (pwrite(fd, jump, sizeof jump, reinterpret_cast<off_t>(code)) != sizeof jump) {
    probe::skip("/proc/self/mem cannot be written here");
  }
  close(fd);
}

void expect_lost(char* kept, const char* word) {
  const char* why = "";
  if (is_kept(fresh())) verdict.broken("memory is kept that is not watched");
  (void)probe::foreign().monitor(&why);
  if (strstr(why, word) == nullptr) verdict.broken("said is only: %s", why);
  // The one from before.
  munmap(kept, kLength);
  char* const again = fresh();
  if (again != kept) probe::skip("the address was not given again");
  probe::Content(1).fill(again, kLength);
  if (device->send(again, kLength, probe::Content(1)) == probe::Outcome::kStale) {
    verdict.broken("what was registered before the change of code is stale after it");
  }
}

void check_lost() {
  char* const kept = fresh();
  if (!is_kept(kept)) verdict.broken("nothing is kept to begin with");
  patch("munmap", reinterpret_cast<const void*>(&lost_munmap));
  expect_lost(kept, "overwritten the code of our munmap");
}

void check_sly() {
  patch_unseen("munmap", reinterpret_cast<const void*>(&lost_munmap));
  if (is_kept(fresh())) verdict.broken("memory is kept that is not watched");
}

void check_writable() {
  char* const kept = fresh();
  void* const page = page_of(code_of("munmap"));
  if (!is_kept(kept)) verdict.broken("nothing is kept to begin with");
  if (mprotect(page, probe::kPage, PROT_READ | PROT_WRITE | PROT_EXEC) != 0) {
    probe::skip("code cannot be made writable here");
  }
  if (probe::stats().foreign_regions != 0) verdict.broken("something is kept from before");
  if (is_kept(kept)) verdict.broken("memory is kept while our code may be changed");
  mprotect(page, probe::kPage, PROT_READ | PROT_EXEC);
  if (!is_kept(kept)) verdict.broken("nothing is kept when it cannot be changed any more");
}

void expect_heard() {
  char* const memory = fresh();
  if (!is_kept(memory)) verdict.broken("nothing is kept");
  const uint64_t before = probe::stats().foreign_invalidations;
  munmap(memory, kLength);
  (void)is_kept(fresh());  // waits until all is reported
  if (probe::stats().foreign_invalidations == before) verdict.broken("munmap is not heard of");
}

void check_forwarded() {
  patch("munmap", reinterpret_cast<const void*>(&forwarding_munmap));
  expect_heard();
}

void check_break() {
  char* const heap = static_cast<char*>(sbrk(2 * kLength));
  if (!is_kept(heap)) verdict.broken("the heap is not kept to begin with");
  patch("brk", reinterpret_cast<const void*>(&lost_brk));
  if (is_kept(heap)) verdict.broken("the heap is kept, and is not watched");
  expect_heard();
}

// The UCX functions used here: see ucm/api/ucm.h.
struct UcxLibrary {
  using Callback = void (*)(int type, void* event, void* argument);
  void* file = dlopen("libucm.so.0", RTLD_NOW | RTLD_GLOBAL);
  int (*set_handler)(int events, int priority, Callback, void*) = nullptr;
};

std::atomic<int> heard{0};

void start_ucx() {
  dlopen("libucs.so.0", RTLD_NOW | RTLD_GLOBAL);
  UcxLibrary ucx;
  if (ucx.file == nullptr) probe::skip("no UCX here");
  ucx.set_handler =
      reinterpret_cast<decltype(ucx.set_handler)>(dlsym(ucx.file, "ucm_set_event_handler"));
  constexpr int kUnmapped = 1 << 17;
  if (ucx.set_handler == nullptr ||
      ucx.set_handler(
          kUnmapped, 1000, [](int, void*, void*) { ++heard; }, nullptr) != 0) {
    probe::skip("UCX cannot watch memory here");
  }
  heard = 0;
}

void check_ucx() {
  start_ucx();
  expect_heard();
  if (heard == 0) verdict.broken("UCX has not heard of it");
}

void check_bound() {
  char* const kept = fresh();
  if (!is_kept(kept)) verdict.broken("nothing is kept to begin with");
  start_ucx();
  expect_lost(kept, "libucm");
}

}  // namespace

int main(int argc, char** argv) {
  probe::ForeignDevice shared(kLength, {}, verdict);
  device = &shared;
  probe::need_monitor(argc > 2 ? argv[2] : "interposed");
  const char* what = argc > 1 ? argv[1] : "";
  if (strcmp(what, "lost") == 0) check_lost();
  if (strcmp(what, "forwarded") == 0) check_forwarded();
  if (strcmp(what, "writable") == 0) check_writable();
  if (strcmp(what, "break") == 0) check_break();
  if (strcmp(what, "sly") == 0) check_sly();
  if (strcmp(what, "ucx") == 0) check_ucx();
  if (strcmp(what, "bound") == 0) check_bound();
  return verdict.status();
}
