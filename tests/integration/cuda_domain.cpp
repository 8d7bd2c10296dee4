// A process with a domain of the CUDA backend, on the made-up driver, which says of every copy
// whether it was direct.
//
//   cuda_domain
//   heap|foreign|wider|larger|limits|leave_nothing|fork|lost|exit|open_at_exit|second|absent
//
// Without the library `heap` and `larger` are controls: stock malloc's copies are staged, and a
// cache that gives nothing up for a larger buffer at the same address is refused by the driver.
#include <sys/wait.h>
#include <time.h>

#include <map>
#include <thread>
#include <vector>

#include "tests/integration/cuda_probe.h"

namespace {

using namespace probe;
using rdmalloc::CudaStatus;

constexpr size_t kSmall = size_t{32} << 10;
constexpr size_t kLarge = size_t{64} << 10;
constexpr size_t kMiB = size_t{1} << 20;

Verdict verdict;
char why[512];

bool contains(const char* text, const char* words) { return strstr(text, words) != nullptr; }

// What a thread of the library's does soon.
template <typename Condition>
bool comes(Condition condition) {
  for (int i = 0; i < 2000; ++i) {
    if (condition()) return true;
    const timespec step{0, 1'000'000};
    nanosleep(&step, nullptr);
  }
  return false;
}

// A copy of this memory is direct, both ways, and its bytes arrive.
void expect_direct(void* memory, size_t length, uint64_t seed, const char* what) {
  const uint64_t direct = fake()->direct_copies;
  copy_there_and_back(memory, length, seed, what, verdict);
  if (fake()->direct_copies != direct + 2) verdict.broken("%s: copies were staged", what);
}

void expect_status(int expected, int status, const char* words, const char* sentence) {
  if (status != expected)
    verdict.broken("status %d, promised was %d: %s", status, expected, sentence);
  if (!contains(sentence, words)) verdict.broken("\"%s\" does not say \"%s\"", sentence, words);
}

void expect_nothing_left() {
  if (fake()->registered != 0) {
    verdict.broken("%lu registrations are left", fake()->registered.load());
  }
  if (of_fake<decltype(fake_cuda_depth)>("fake_cuda_depth")() > 1)
    verdict.broken("a context is left current");
}

void check_heap() {
  void* early = malloc(kMiB);
  rdm_domain* domain = domains().open != nullptr ? open_domain(verdict) : nullptr;
  expect_direct(early, kMiB, 1, "a buffer from before the domain");
  if (domain == nullptr) return;
  for (size_t size = 64; size <= 64 * kMiB; size *= 4) {
    void* buffer = malloc(size);
    if (!comes([&] { return covers(buffer, size); })) {
      verdict.broken("%zu bytes are never registered", size);
    }
    expect_direct(buffer, size, size, "a buffer of a grown heap");
    rdm_mr mr{};
    if (domains().lookup(domain, buffer, size, &mr) != RDM_OK) {
      verdict.broken("%zu bytes have no key", size);
    } else if (mr.handle != mr.base) {
      verdict.broken("the handle is not where the device sees the memory");
    }
  }
  // At once: the lookup registers what the library's thread has not come to.
  void* fresh = malloc(200 * kMiB);
  rdm_mr mr{};
  if (domains().lookup(domain, fresh, 200 * kMiB, &mr) != RDM_OK || !covers(fresh, 200 * kMiB)) {
    verdict.broken("a lookup leaves a fresh buffer unregistered");
  }
  close_domain(domain, verdict);
  expect_nothing_left();
}

void check_foreign() {
  rdm_domain* domain = open_domain(verdict);
  char* memory = map_pages(kMiB);
  uint64_t before = fake()->registrations;
  for (int i = 0; i < 100; ++i) {
    rdm_mr mr{};
    if (domains().get(domain, memory + i * 64, kLarge, &mr) != RDM_OK) {
      verdict.broken("rdm_get: %s", domains().last_error());
      break;
    }
    if (mr.handle != mr.base) verdict.broken("the handle is not where the device sees it");
    expect_direct(memory + i * 64, kLarge, static_cast<uint64_t>(i), "foreign memory");
    if (domains().put(domain, &mr) != RDM_OK) verdict.broken("rdm_put failed");
  }
  before = fake()->registrations - before;
  if (before > 4) verdict.broken("%lu registrations for the same memory", before);
  munmap(memory, kMiB);
  // What is unmapped is let go of, and an address that nothing is mapped at is refused.
  rdm_mr mr{};
  expect_status(RDM_SYSTEM, domains().get(domain, memory, kLarge, &mr), "not mapped",
                domains().last_error());
  close_domain(domain, verdict);
  expect_nothing_left();
}

// The control's: it finds what it registered by address and size, and gives nothing up.
struct NaiveCache {
  std::map<std::pair<char*, size_t>, bool> registered;
  int get(char* memory, size_t length) {
    if (registered.count({memory, length}) != 0) return kCudaSuccess;
    const CudaStatus status = cuda().host_register(memory, length, 1);
    if (status == kCudaSuccess) registered[{memory, length}] = true;
    return status;
  }
};

// One get and put, through the library or, without it, the naive cache.
void use(rdm_domain* domain, char* memory, size_t length, uint64_t seed, const char* what) {
  static NaiveCache naive;
  rdm_mr mr{};
  if (domain == nullptr) {
    const int status = naive.get(memory, length);
    if (status != kCudaSuccess) verdict.broken("%s: CUDA error %d", what, status);
    return;
  }
  if (domains().get(domain, memory, length, &mr) != RDM_OK) {
    verdict.broken("%s: %s", what, domains().last_error());
    return;
  }
  expect_direct(memory, length, seed, what);
  if (domains().put(domain, &mr) != RDM_OK) verdict.broken("%s: rdm_put failed", what);
}

// The case of the seed: a buffer is freed, and a larger one is at the same address.
void check_larger() {
  rdm_domain* domain = domains().open != nullptr ? open_domain(verdict) : nullptr;
  char* place = map_pages(kLarge);
  munmap(place, kLarge);
  for (uint64_t i = 0; i < 200; ++i) {
    use(domain, map_pages(kSmall, place), kSmall, i, "32 KiB");
    munmap(place, kSmall);
    use(domain, map_pages(kLarge, place), kLarge, i + 7, "64 KiB at the same address");
    munmap(place, kLarge);
  }
  close_domain(domain, verdict);
  if (domain != nullptr) expect_nothing_left();
}

// The same without an unmapping that somebody could notice, and while the smaller one is in use.
void check_wider() {
  rdm_domain* domain = open_domain(verdict);
  char* memory = map_pages(kLarge);
  use(domain, memory, kSmall, 1, "32 KiB");
  use(domain, memory, kLarge, 2, "64 KiB at the same address");
  if (fake()->registered_bytes < kLarge) verdict.broken("not all is registered");
  char* other = map_pages(kLarge);
  rdm_mr held{};
  rdm_mr wide{};
  if (domains().get(domain, other, kSmall, &held) != RDM_OK) verdict.broken("rdm_get failed");
  const int status = domains().get(domain, other, kLarge, &wide);
  if (status == RDM_OK) verdict.broken("memory in use was given up");
  if (domains().last_error()[0] == '\0') verdict.broken("nothing is said of memory in use");
  if (!covers(other, kSmall)) verdict.broken("memory in use is not registered any more");
  if (domains().put(domain, &held) != RDM_OK) verdict.broken("rdm_put failed");
  use(domain, other, kLarge, 3, "64 KiB when the smaller part is idle");
  close_domain(domain, verdict);
  expect_nothing_left();
}

void check_limits() {
  void* large = malloc(16 * kMiB);
  rdm_domain* domain = nullptr;
  fake()->most_bytes = kMiB;
  expect_status(RDM_OUT_OF_BUDGET, open_domain({}, &domain, why, sizeof why), "CUDA driver", why);
  expect_nothing_left();
  fake()->most_bytes = UINT64_MAX;
  domain = open_domain(verdict, {.foreign_bytes = 4 * kLarge, .foreign_count = 4});
  std::vector<char*> buffers;
  for (int i = 0; i < 64; ++i) buffers.push_back(map_pages(2 * kLarge));
  for (uint64_t round = 0; round < 4; ++round) {
    for (char* buffer : buffers) {
      use(domain, buffer, kLarge, round, "a buffer of many");
      size_t registered = 0;
      for (const char* each : buffers) registered += covers(each, 1) ? 1 : 0;
      if (registered == 0 || registered > 4) verdict.broken("%zu are registered", registered);
    }
  }
  // The driver's own limit: idle registrations make room there too, or the caller is told.
  fake()->most_registrations = fake()->registered.load();
  rdm_mr mr{};
  const int status = domains().get(domain, large, 16 * kMiB, &mr);
  if (status != RDM_OK) verdict.broken("memory of the heap: status %d", status);
  close_domain(domain, verdict);
  fake()->most_registrations = 0;
  expect_status(RDM_OUT_OF_BUDGET, open_domain({}, &domain, why, sizeof why), "CUDA driver", why);
  expect_nothing_left();
}

void check_leave_nothing() {
  rdm_domain* domain = open_domain(verdict, {.flags = RDM_DOMAIN_LEAVE_NOTHING_PINNED});
  char* memory = map_pages(kLarge);
  for (uint64_t i = 0; i < 10; ++i) {
    use(domain, memory, kLarge, i, "foreign memory");
    if (covers(memory, 1)) verdict.broken("foreign memory stays registered");
  }
  close_domain(domain, verdict);
  expect_nothing_left();
}

// In the child, where the driver must not be called any more.
int be_child(rdm_domain* domain, void* buffer, char* memory, const rdm_mr& held) {
  alarm(20);
  const uint64_t before = fake()->calls;
  rdm_mr mr{};
  if (domains().lookup(domain, buffer, kMiB, &mr) != RDM_NOT_REGISTERED) return 2;
  if (domains().get(domain, memory, kLarge, &mr) == RDM_OK) return 3;
  (void)domains().put(domain, &held);
  for (size_t size = 64; size <= 16 * kMiB; size *= 2) {
    void* object = malloc(size);
    memset(object, 1, size);
    free(object);
  }
  munmap(memory, kLarge);
  (void)domains().close(domain);
  if (fake()->calls != before) return 4;
  // Its own it cannot have either: CUDA is the parent's.
  rdm_domain* own = nullptr;
  if (open_domain({}, &own, why, sizeof why) != RDM_UNSUPPORTED) return 5;
  return contains(why, "child of fork") && fake()->calls_in_child == 0 ? 0 : 6;
}

void check_fork() {
  rdm_domain* domain = open_domain(verdict);
  void* buffer = malloc(kMiB);
  char* memory = map_pages(kLarge);
  rdm_mr held{};
  if (domains().lookup(domain, buffer, kMiB, &held) != RDM_OK) verdict.broken("no key");
  expect_direct(buffer, kMiB, 1, "the parent's heap");
  if (domains().get(domain, memory, kLarge, &held) != RDM_OK) verdict.broken("rdm_get failed");
  const pid_t child = fork();
  if (child == 0) _exit(be_child(domain, buffer, memory, held));
  int status = 0;
  waitpid(child, &status, 0);
  if (status != 0) verdict.broken("the child ended with status %#x", status);
  expect_direct(buffer, kMiB, 2, "the parent's heap after the fork");
  expect_direct(memory, kLarge, 3, "the parent's foreign memory after the fork");
  if (domains().close(domain) != RDM_BUSY) verdict.broken("closed with foreign memory in use");
  if (domains().put(domain, &held) != RDM_OK) verdict.broken("rdm_put failed");
  close_domain(domain, verdict);
  expect_nothing_left();
}

// The context goes while the domain is open: malloc goes on, and everything has an answer.
void check_lost() {
  for (const bool destroyed : {true, false}) {
    CudaContext context = nullptr;
    if (cuda().create_context(&context, 0, 0) != kCudaSuccess) skip("no context");
    rdm_domain* domain = open_domain(verdict);
    char* memory = map_pages(kLarge);
    use(domain, memory, kLarge, 1, "foreign memory");
    if (destroyed) {
      (void)cuda().destroy_context(context);
    } else {
      fake()->broken = rdmalloc::kCudaIllegalAddress;
    }
    // Never freed: the heap has to grow.
    void* grown = nullptr;
    for (int i = 0; i < 8; ++i) grown = memset(malloc(32 * kMiB), 1, 32 * kMiB);
    rdm_mr mr{};
    if (domains().lookup(domain, grown, 32 * kMiB, &mr) == RDM_OK) {
      verdict.broken("registered in a context that is gone");
    }
    char* other = map_pages(kLarge);
    expect_status(RDM_SYSTEM, domains().get(domain, other, kLarge, &mr),
                  destroyed ? "destroyed" : "broke the context", domains().last_error());
    munmap(memory, kLarge);
    const int status = domains().close(domain);
    if (status != (destroyed ? RDM_OK : RDM_SYSTEM)) verdict.broken("closing: status %d", status);
    fake()->broken = kCudaSuccess;
  }
}

rdm_domain* closed_at_exit = nullptr;

// The driver registers its own handler later, when it starts, and so shuts down before this runs.
void close_at_exit() {
  if (fake()->shut_down == false) _exit(4);
  const uint64_t before = fake()->calls_after_shut_down;
  if (domains().close(closed_at_exit) != RDM_OK) _exit(5);
  if (fake()->calls_after_shut_down == before) _exit(6);
  free(malloc(64 * kMiB));
  _exit(verdict.status());
}

void check_second() {
  rdm_domain* first = open_domain(verdict);
  rdm_domain* second = nullptr;
  expect_status(RDM_BUSY, open_domain({}, &second, why, sizeof why), "serves all contexts", why);
  void* buffer = malloc(kMiB);
  rdm_mr mr{};
  if (domains().lookup(first, buffer, kMiB, &mr) != RDM_OK) verdict.broken("the first domain lost");
  close_domain(first, verdict);
  expect_nothing_left();
}

void check_absent() {
  if (cuda().is_there()) skip("there is a CUDA driver here");
  rdm_domain* domain = nullptr;
  rdm_remote_cache* cache = nullptr;
  expect_status(RDM_UNSUPPORTED, open_domain({}, &domain, why, sizeof why), "no CUDA driver", why);
  if (domains().remote_open == nullptr) return;
  expect_status(RDM_UNSUPPORTED, domains().remote_open(nullptr, nullptr, &cache), "no CUDA driver",
                domains().last_error());
}

}  // namespace

int main(int argc, char** argv) {
  const char* what = argc > 1 ? argv[1] : "";
  const auto is = [what](const char* name) { return strcmp(what, name) == 0; };
  if (is("absent")) {
    check_absent();
    return verdict.status();
  }
  if (is("exit")) atexit(close_at_exit);
  (void)use_device();
  if (fake() == nullptr) skip("the driver is not the made-up one");
  if (is("heap")) check_heap();
  if (is("foreign")) check_foreign();
  if (is("larger")) check_larger();
  if (is("wider")) check_wider();
  if (is("limits")) check_limits();
  if (is("leave_nothing")) check_leave_nothing();
  if (is("fork")) check_fork();
  if (is("lost")) check_lost();
  if (is("second")) check_second();
  if (is("exit") || is("open_at_exit")) closed_at_exit = open_domain(verdict);
  return verdict.status();
}
