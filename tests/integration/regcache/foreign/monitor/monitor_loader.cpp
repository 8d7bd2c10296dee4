// The dynamic linker holds its lock while dlopen() runs constructors, and the interposed monitor
// asks it where calls end. A constructor that registers memory must never wait for a thread that is
// asking. If it does, SIGALRM kills the process.
//
//   monitor_loader choosing PLUGIN   the other thread makes the first registration, so a monitor is
//                                    chosen
//   monitor_loader looking PLUGIN    the other thread makes the monitor check symbol bindings again
//   monitor_loader same PLUGIN       ... and registers the same memory
//   monitor_loader importing PLUGIN  both would import our monitor into libfabric
//
// PLUGIN: a shared object whose constructor calls constructor_of_plugin().
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>

#include <atomic>

#include "include/rdmalloc/backend.h"
#include "tests/integration/probe.h"

namespace {

// For one round, on a busy machine.
constexpr unsigned kWatchdogS = 30;
constexpr int kRounds = 30;
constexpr int kProcesses = 10;
const size_t kLength = 4 * probe::kPage;
// Enough turns for another thread to reach a lock and wait.
constexpr int kTurns = 20;

// Found before any thread may wait for the dynamic linker.
const auto get = probe::symbol<decltype(rdm_get)>("rdm_get");
const auto put = probe::symbol<decltype(rdm_put)>("rdm_put");
const auto import_monitor = probe::symbol<int()>("rdm_ofi_import_monitor");

probe::Verdict verdict;
const char* plugin = nullptr;
rdm_domain* domain = nullptr;
char* memory_of_thread = nullptr;
char* memory_of_constructor = nullptr;
void (*action)(char*) = nullptr;
std::atomic<bool> is_loading{false};
std::atomic<bool> is_registering{false};

// A device that accepts everything.
int tell_limits(void*, rdm_backend_limits*) { return RDM_OK; }
int register_memory(void*, const rdm_backend_request*, rdm_backend_key* out, char*, size_t) {
  static std::atomic<uint32_t> keys{0};
  *out = {++keys, 0, nullptr};
  return RDM_OK;
}
int deregister_memory(void*, const rdm_backend_key*) { return RDM_OK; }

void open_domain() {
  auto* const open = probe::symbol<decltype(rdm_domain_open)>("rdm_domain_open");
  if (open == nullptr) probe::skip("needs the library");
  const rdm_backend backend{sizeof(rdm_backend), "any",  tell_limits, register_memory,
                            deregister_memory,   nullptr};
  if (open(&backend, nullptr, nullptr, &domain) != RDM_OK) verdict.broken("no domain");
}

char* map_memory() {
  void* const got =
      mmap(nullptr, kLength, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return static_cast<char*>(got);
}

void use(char* memory) {
  rdm_mr mr{};
  if (get(domain, memory, kLength, &mr) != RDM_OK) return verdict.broken("not registered");
  if (put(domain, &mr) != RDM_OK) verdict.broken("not given back");
}

// There is no libfabric here: what counts is that both are called.
void import(char*) {
  if (import_monitor() == RDM_OK) verdict.broken("imported into nothing");
}

// Whoever rewrites the program's symbol bindings makes them writable first: the monitor must then
// check them before trusting them again.
void make_monitor_look() {
  static char of_program = 0;
  const auto page = reinterpret_cast<uintptr_t>(&of_program) & ~(probe::kPage - 1);
  (void)mprotect(reinterpret_cast<void*>(page), probe::kPage, PROT_READ | PROT_WRITE);
}

void* register_beside(void*) {
  while (!is_loading) sched_yield();
  (void)madvise(memory_of_thread, kLength, MADV_DONTNEED);
  make_monitor_look();
  is_registering = true;
  action(memory_of_thread);
  return nullptr;
}

void load_once() {
  alarm(kWatchdogS);
  is_loading = false;
  is_registering = false;
  pthread_t thread{};
  pthread_create(&thread, nullptr, register_beside, nullptr);
  void* const library = dlopen(plugin, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) verdict.broken("loading: %s", dlerror());
  pthread_join(thread, nullptr);
  if (library != nullptr) dlclose(library);
}

int load_often() {
  open_domain();
  use(memory_of_thread);
  const char* why = "";
  const char* name = probe::symbol<decltype(rdm_monitor)>("rdm_monitor")(&why);
  if (strcmp(name, "interposed") != 0) probe::skip(why);
  for (int round = 0; round < kRounds; ++round) load_once();
  return verdict.status();
}

// A process chooses its monitor once.
int load_first_of_all() {
  for (int i = 0; i < kProcesses; ++i) {
    const probe::ChildEnd end = probe::run_child([] {
      open_domain();
      load_once();
      return verdict.status();
    });
    verdict.expect_good_end("a process", end);
    if (!end.exited_well()) break;
  }
  return verdict.status();
}

}  // namespace

// Called by the plug-in's constructor.
extern "C" __attribute__((visibility("default"))) void constructor_of_plugin() {
  is_loading = true;
  while (!is_registering) sched_yield();
  for (int i = 0; i < kTurns; ++i) sched_yield();
  action(memory_of_constructor);
}

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  plugin = argv[2];
  action = strcmp(argv[1], "importing") == 0 ? import : use;
  memory_of_thread = map_memory();
  memory_of_constructor = strcmp(argv[1], "same") == 0 ? memory_of_thread : map_memory();
  return strcmp(argv[1], "choosing") == 0 ? load_first_of_all() : load_often();
}
