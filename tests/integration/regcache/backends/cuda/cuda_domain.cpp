// A process with a CUDA domain, on the fake driver, which reports for each copy whether it was
// direct.
//
//   cuda_domain heap|fork|lost|exit|open_at_exit|second|own|absent
//
// Without the library `heap` is the control: stock malloc's copies are staged.
#include <time.h>

#include "tests/integration/regcache/backends/cuda/cuda_checks.h"

namespace {

using namespace probe;

// Waits for what a library thread will do soon.
template <typename Condition>
bool comes(Condition condition) {
  for (int i = 0; i < 2000; ++i) {
    if (condition()) return true;
    const timespec step{0, 1'000'000};
    nanosleep(&step, nullptr);
  }
  return false;
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
  // Immediately: the lookup registers what the library's thread has not reached yet.
  void* fresh = malloc(200 * kMiB);
  rdm_mr mr{};
  if (domains().lookup(domain, fresh, 200 * kMiB, &mr) != RDM_OK || !covers(fresh, 200 * kMiB)) {
    verdict.broken("a lookup leaves a fresh buffer unregistered");
  }
  close_domain(domain, verdict);
  expect_nothing_left();
}

// In the child, where the driver must not be called any more.
int be_child(rdm_domain* domain, void* buffer, char* memory, const rdm_mr& held) {
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
  // It cannot have its own either: CUDA belongs to the parent.
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
  verdict.expect_good_end("the child",
                          run_child([&] { return be_child(domain, buffer, memory, held); }));
  expect_direct(buffer, kMiB, 2, "the parent's heap after the fork");
  expect_direct(memory, kLarge, 3, "the parent's foreign memory after the fork");
  if (domains().close(domain) != RDM_BUSY) verdict.broken("closed with foreign memory in use");
  if (domains().put(domain, &held) != RDM_OK) verdict.broken("rdm_put failed");
  close_domain(domain, verdict);
  expect_nothing_left();
}

// The context is lost while the domain is open: malloc continues, and every call gets an answer.
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
    // Never freed, so that the heap must grow.
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

// The driver registers its handler later, when it starts, so it shuts down before this runs.
void close_at_exit() {
  if (fake()->shut_down == false) _exit(4);
  const uint64_t before = fake()->calls_after_shut_down;
  if (domains().close(closed_at_exit) != RDM_OK) _exit(5);
  if (fake()->calls_after_shut_down == before) _exit(6);
  free(malloc(64 * kMiB));
  _exit(verdict.status());
}

// For example one per device.
void check_second() {
  rdm_domain* first = open_domain(verdict);
  rdm_domain* second = open_domain(verdict);
  void* buffer = malloc(kMiB);
  rdm_mr mr{};
  for (rdm_domain* domain : {first, second}) {
    if (domains().lookup(domain, buffer, kMiB, &mr) != RDM_OK) verdict.broken("no key");
  }
  close_domain(first, verdict);
  expect_direct(buffer, kMiB, 1, "the heap when one of two domains is closed");
  void* fresh = malloc(64 * kMiB);
  if (domains().lookup(second, fresh, 64 * kMiB, &mr) != RDM_OK) verdict.broken("no key");
  close_domain(second, verdict);
  expect_nothing_left();
}

// The program registers some of its heap itself.
void check_own() {
  char* memory = static_cast<char*>(malloc(8 * kMiB));
  if (cuda().host_register(memory, kMiB, 0) != kCudaSuccess) skip("cannot register");
  rdm_domain* domain = nullptr;
  expect_status(RDM_BUSY, open_domain({}, &domain, why, sizeof why), "RDM_DOMAIN_PARTIAL", why);
  domain = open_domain(verdict, {.flags = RDM_DOMAIN_PARTIAL});
  void* fresh = malloc(256 * kMiB);
  rdm_mr mr{};
  if (domains().lookup(domain, fresh, 256 * kMiB, &mr) != RDM_OK) verdict.broken("no key");
  if (cuda().host_unregister(memory) != kCudaSuccess) verdict.broken("the program's own is gone");
  char* foreign = map_pages(kLarge);
  if (cuda().host_register(foreign, kLarge, 0) != kCudaSuccess) skip("cannot register");
  expect_status(RDM_BUSY, domains().get(domain, foreign, kLarge, &mr), "by the program",
                domains().last_error());
  if (cuda().host_unregister(foreign) != kCudaSuccess) verdict.broken("the program's own is gone");
  use(domain, foreign, kLarge, 1, "foreign memory that the program has let go of");
  close_domain(domain, verdict);
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
  if (is("fork")) check_fork();
  if (is("lost")) check_lost();
  if (is("second")) check_second();
  if (is("own")) check_own();
  if (is("exit") || is("open_at_exit")) closed_at_exit = open_domain(verdict);
  return verdict.status();
}
