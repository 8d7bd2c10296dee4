// MPI_Alloc_mem and MPI_Free_mem under any MPI, one promise per run: mpi_alloc CASE. Built with
// each MPI's wrapper, as a program and as a plug-in for a program without MPI (mpi_alloc_host.cpp).
#include <mpi.h>
#include <pthread.h>
#include <stdint.h>

#include <initializer_list>

#include "tests/integration/probe.h"
#include "tests/integration/regcache/preload/mpi/mpi_alloc_memory.h"

namespace {

using mpi_alloc::exposed;
using mpi_alloc::served;
using probe::library;

probe::Verdict verdict;

void* allocate(MPI_Aint size, MPI_Info info = MPI_INFO_NULL) {
  void* memory = nullptr;
  if (MPI_Alloc_mem(size, info, &memory) != MPI_SUCCESS) verdict.broken("no %td bytes", size);
  return memory;
}

MPI_Info info_with(const char* key, const char* value) {
  MPI_Info info = MPI_INFO_NULL;
  MPI_Info_create(&info);
  MPI_Info_set(info, key, value);
  return info;
}

int class_of(int error) {
  int result = MPI_SUCCESS;
  if (error != MPI_SUCCESS) MPI_Error_class(error, &result);
  return result;
}

bool in_window(const void* memory) { return library().loaded() && library().owns(memory) != 0; }

// Resident, without the files' pages that the kernel maps in addition whenever one is touched.
uint64_t anonymous_bytes() { return probe::kib_field("/proc/self/status", "RssAnon:"); }

// The program of ompi #4567, and larger blocks; `kept` of a thousand are not freed.
void run_loop(unsigned kept) {
  constexpr int kWarmUp = 1000;
  constexpr int kRounds = 200'000;
  constexpr uint64_t kMostGrowth = 1 << 20;
  constexpr MPI_Aint kSizes[] = {100, 5000, 300, 100'000};
  uint64_t resident = 0;
  uint64_t held = 0;
  for (int round = 0; round < kWarmUp + kRounds; ++round) {
    if (round == kWarmUp) {
      resident = anonymous_bytes();
      held = probe::stats().held_bytes;
    }
    void* memory = allocate(kSizes[round % 4]);
    memset(memory, round, 100);
    if (round % 1000 >= static_cast<int>(kept)) MPI_Free_mem(memory);
  }
  const uint64_t grown = anonymous_bytes() - resident;
  if (anonymous_bytes() > resident && grown > kMostGrowth) {
    verdict.broken("resident memory grew by %zu bytes in %d rounds", grown, kRounds);
  }
  if (probe::stats().held_bytes != held) verdict.broken("the heap grew");
}

void flat() {
  run_loop(0);
  if (served() == 0) verdict.broken("no memory came from rdmalloc");
}
void leaky() { run_loop(100); }

// Can be looked up in a domain like any malloc'd buffer.
void registered() {
  const auto open = probe::symbol<decltype(rdm_domain_open_io_uring)>("rdm_domain_open_io_uring");
  const auto look_up = probe::symbol<decltype(rdm_lookup)>("rdm_lookup");
  const auto close = probe::symbol<decltype(rdm_domain_close)>("rdm_domain_close");
  if (open == nullptr) return verdict.broken("there is no domain");
  rdm_domain* domain = nullptr;
  probe::need_domain(open(-1, nullptr, &domain), "no io_uring here");
  for (const MPI_Aint size : {1, 100, 4096, 70'000, 3'000'000}) {
    void* memory = allocate(size);
    rdm_mr mr{};
    if (!in_window(memory)) verdict.broken("%td bytes outside the window", size);
    if (look_up(domain, memory, static_cast<size_t>(size), &mr) != RDM_OK) {
      verdict.broken("%td bytes are not registered", size);
    }
    MPI_Free_mem(memory);
  }
  close(domain);
  if (served() != 5) verdict.broken("%zu of 5 served", served());
}

void hints() {
  MPI_Info aligned = info_with("mpi_minimum_memory_alignment", "65536");
  MPI_Info shared = info_with("rdmalloc_exposed", "true");
  MPI_Info unknown = info_with("no_such_key", "1");
  MPI_Info pool = info_with("mpool_hints", "mpool=rdmalloc,exposed=true");
  void* memory[] = {allocate(100, aligned), allocate(100, shared), allocate(100, unknown),
                    allocate(100, pool)};
  if (reinterpret_cast<uintptr_t>(memory[0]) % 65536 != 0) verdict.broken("not aligned");
  if (!exposed(memory[1])) verdict.broken("not exposed");
  if (exposed(memory[2])) verdict.broken("exposed, and nobody asked for it");
  if (!exposed(memory[3])) verdict.broken("not exposed, by the name of the pool");
  if (served() != 4) verdict.broken("%zu of 4 served", served());
  for (void* each : memory) MPI_Free_mem(each);
  for (MPI_Info* info : {&aligned, &shared, &unknown, &pool}) MPI_Info_free(info);
}

// An invalid alignment neither fails nor bypasses us.
void nonsense() {
  for (const char* value : {"0", "-8", "3", "x", "99999999999999999999999"}) {
    MPI_Info info = info_with("mpi_minimum_memory_alignment", value);
    MPI_Free_mem(allocate(100, info));
    MPI_Info_free(&info);
  }
  if (served() != 5) verdict.broken("%zu of 5 served", served());
}

void exposed_by_default() {
  void* memory = allocate(100);
  if (!exposed(memory)) verdict.broken("not exposed");
  MPI_Free_mem(memory);
}

// A request to expose that cannot be met, by the setting or by the key: ordinary memory.
void unexposed() {
  MPI_Info shared = info_with("rdmalloc_exposed", "true");
  for (MPI_Info info : {MPI_INFO_NULL, shared}) {
    void* memory = allocate(100, info);
    if (exposed(memory) || !in_window(memory)) verdict.broken("not ordinary memory");
    MPI_Free_mem(memory);
  }
  MPI_Info_free(&shared);
}

// Memory that the MPI library allocates itself, mixed with ours, each freed by either name.
void mixed() {
  constexpr size_t kCount = 3000;
  static void* memory[kCount];
  MPI_Info pool = info_with("mpool_hints", "mpool=hugepage");
  for (size_t i = 0; i < kCount; ++i) {
    // Zero bytes: null, or an address that MPICH wants back.
    const MPI_Aint size = i % 4 == 1 ? 0 : static_cast<MPI_Aint>(1 + i * 7 % 2000);
    MPI_Info info = i % 4 == 2 ? pool : MPI_INFO_NULL;
    (i % 3 == 0 ? PMPI_Alloc_mem : MPI_Alloc_mem)(size, info, &memory[i]);
    if (size > 0) memset(memory[i], 1, static_cast<size_t>(size));
  }
  if (served() == 0 || served() == kCount) verdict.broken("%zu of %zu served", served(), kCount);
  for (size_t i = 0; i < kCount; ++i) {
    (i % 5 == 0 ? PMPI_Free_mem : MPI_Free_mem)(memory[i * 7 % kCount]);
  }
  MPI_Free_mem(nullptr);
  MPI_Info_free(&pool);
}

void errors() {
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  void* memory = nullptr;
  for (const MPI_Aint size : {PTRDIFF_MAX, MPI_Aint{1} << 46}) {
    const int got = class_of(MPI_Alloc_mem(size, MPI_INFO_NULL, &memory));
    if (got != MPI_ERR_NO_MEM) verdict.broken("%td bytes: error class %d", size, got);
  }
  if (class_of(MPI_Alloc_mem(-1, MPI_INFO_NULL, &memory)) != MPI_ERR_ARG) {
    verdict.broken("a negative size is no error");
  }
  if (class_of(MPI_Alloc_mem(8, MPI_INFO_NULL, nullptr)) != MPI_ERR_ARG) {
    verdict.broken("null is no error");
  }
  MPI_Free_mem(allocate(8));
}

void fatal() {
  void* memory = nullptr;
  MPI_Alloc_mem(PTRDIFF_MAX, MPI_INFO_NULL, &memory);
  verdict.broken("went on");
}

void threads() {
  constexpr int kThreads = 4;
  const auto churn = [](void*) -> void* {
    probe::Random random(reinterpret_cast<uintptr_t>(&random));
    void* memory[64] = {};
    for (int i = 0; i < 20'000; ++i) {
      void*& slot = memory[random.below(64)];
      if (slot != nullptr) MPI_Free_mem(slot);
      slot = allocate(static_cast<MPI_Aint>(random.size_between(1, 8192)));
    }
    for (void* each : memory) MPI_Free_mem(each);
    return nullptr;
  };
  pthread_t thread[kThreads];
  for (pthread_t& each : thread) pthread_create(&each, nullptr, churn, nullptr);
  for (pthread_t& each : thread) pthread_join(each, nullptr);
  if (served() != kThreads * 20'000) verdict.broken("%zu served", served());
}

// A profiling tool loaded after the shim sees every call, and the memory is still ours.
void tool() {
  constexpr size_t kCount = 100;
  const auto calls = probe::symbol<size_t()>("mpi_tool_calls");
  if (calls == nullptr) return verdict.broken("there is no tool");
  for (size_t i = 0; i < kCount; ++i) MPI_Free_mem(allocate(100));
  if (calls() != 2 * kCount) verdict.broken("the tool saw %zu calls", calls());
  if (served() != kCount) verdict.broken("%zu of %zu served", served(), kCount);
}

// MPI calls this in MPI_Finalize, when memory may still be freed and allocated.
int in_finalize(MPI_Comm, int, void* memory, void*) {
  MPI_Free_mem(memory);
  MPI_Free_mem(allocate(100));
  return MPI_SUCCESS;
}

void callback() {
  int key = MPI_KEYVAL_INVALID;
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, in_finalize, &key, nullptr);
  MPI_Comm_set_attr(MPI_COMM_SELF, key, allocate(100));
}

void use_window(MPI_Win window, int* base) {
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Win_fence(0, window);
  MPI_Put(&rank, 1, MPI_INT, (rank + 1) % size, 3, 1, MPI_INT, window);
  MPI_Win_fence(0, window);
  if (base[3] != (rank + size - 1) % size) verdict.broken("%d arrived", base[3]);
}

void windows(int flavor, bool from_us) {
  constexpr uintptr_t kAlignment = 65536;
  constexpr MPI_Aint kBytes = 1 << 20;
  MPI_Info info = info_with("mpi_minimum_memory_alignment", "65536");
  uint64_t held = 0;
  for (int round = 0; round < 50; ++round) {
    if (round == 10) held = probe::stats().held_bytes;
    const size_t before = served();
    int* base = nullptr;
    MPI_Win window = MPI_WIN_NULL;
    MPI_Win_allocate(kBytes, sizeof(int), info, MPI_COMM_WORLD, &base, &window);
    if ((served() != before) != from_us) verdict.broken("memory from elsewhere");
    if (from_us && reinterpret_cast<uintptr_t>(base) % kAlignment != 0) {
      verdict.broken("not aligned");
    }
    int* got = nullptr;
    int is_there = 0;
    MPI_Win_get_attr(window, MPI_WIN_CREATE_FLAVOR, &got, &is_there);
    if (is_there == 0 || *got != flavor) verdict.broken("another flavor");
    use_window(window, base);
    MPI_Win_free(&window);
  }
  MPI_Info_free(&info);
  // MPI itself may malloc a little more meanwhile.
  if (from_us && probe::stats().held_bytes > held + 10 * kBytes) {
    verdict.broken("windows keep their memory");
  }
}

void window_ours() { windows(MPI_WIN_FLAVOR_CREATE, true); }
void window_theirs() { windows(MPI_WIN_FLAVOR_ALLOCATE, false); }

// With one rank: for several, Open MPI creates no window from given memory.
void window_alone() {
  int* base = nullptr;
  MPI_Win window = MPI_WIN_NULL;
  MPI_Win_allocate(4096, sizeof(int), MPI_INFO_NULL, MPI_COMM_SELF, &base, &window);
  const int sent = 5;
  MPI_Win_fence(0, window);
  MPI_Put(&sent, 1, MPI_INT, 0, 3, 1, MPI_INT, window);
  MPI_Win_fence(0, window);
  if (base[3] != sent) verdict.broken("%d arrived", base[3]);
  if (!in_window(base)) verdict.broken("memory from elsewhere");
  MPI_Win_free(&window);
}

// A rank without memory: no rank gets a window, and each is told by its communicator's error
// handler (that of MPI_COMM_WORLD would end the program).
void window_refused() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm ours = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &ours);
  MPI_Comm_set_errhandler(ours, MPI_ERRORS_RETURN);
  void* base = nullptr;
  MPI_Win window = MPI_WIN_NULL;
  const int got = class_of(MPI_Win_allocate(rank == 0 ? MPI_Aint{1} << 46 : 4096, 1, MPI_INFO_NULL,
                                            ours, &base, &window));
  if (got != MPI_ERR_NO_MEM) verdict.broken("rank %d: error class %d", rank, got);
  MPI_Comm_free(&ours);
}

void nothing() {}

struct Case {
  const char* name;
  void (*run)();
};
constexpr Case kCases[] = {
    {"flat", flat},
    {"leaky", leaky},
    {"registered", registered},
    {"hints", hints},
    {"nonsense", nonsense},
    {"exposed_by_default", exposed_by_default},
    {"unexposed", unexposed},
    {"mixed", mixed},
    {"errors", errors},
    {"fatal", fatal},
    {"threads", threads},
    {"tool", tool},
    {"callback", callback},
    {"window_ours", window_ours},
    {"window_theirs", window_theirs},
    {"window_alone", window_alone},
    {"window_refused", window_refused},
    {"before_init", nothing},
    {"after_finalize", nothing},
};

int run(const char* name) {
  const bool before = strcmp(name, "before_init") == 0;
  const bool after = strcmp(name, "after_finalize") == 0;
  if (before) (void)allocate(8);
  int provided = 0;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided);
  if (provided < MPI_THREAD_MULTIPLE && strcmp(name, "threads") == 0) probe::skip("no threads");
  for (const Case& each : kCases) {
    if (strcmp(each.name, name) == 0) each.run();
  }
  void* memory = after ? allocate(8) : nullptr;
  MPI_Finalize();
  if (after && MPI_Free_mem(memory) != MPI_SUCCESS) verdict.broken("an error");
  return verdict.status();
}

}  // namespace

#ifdef PLUGIN
extern "C" int plugin_main(const char* name) { return run(name); }
#else
int main(int argc, char** argv) { return argc == 2 ? run(argv[1]) : 2; }
#endif
