// A program that uses verbs and knows nothing of rdmalloc: what its calls return, judged by the
// device (fake_libibverbs.h). Exit status 0: as promised, 1: not.
#include <dlfcn.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <random>
#include <vector>

#include "fake_libibverbs.h"
#include "tests/integration/regcache/preload/verbs/verbs_case.h"
#include "tests/support/child.h"

namespace {

using rdmalloc::test::ChildEnd;
using rdmalloc::test::end_of;
using rdmalloc::test::run_child;
using verbs::promise;
using verbs::settled_books;

constexpr int kLocal = IBV_ACCESS_LOCAL_WRITE;
constexpr int kRemote = kLocal | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

// More than the number of regions in any of these programs.
constexpr uint64_t kFewRegistrations = 64;

struct Program {
  ibv_context* context = fake_open_device();
  ibv_pd* pd = ibv_alloc_pd(context);
};

// The struct looks as the caller requested, and the device accepts its keys for that buffer.
void check(const Program& program, const ibv_mr* mr, const void* address, size_t length,
           int access = kLocal) {
  promise(mr != nullptr, "the registration succeeds");
  promise(mr->addr == address && mr->length == length, "the memory region has address and length");
  promise(mr->pd == program.pd && mr->context == program.context, "... and protection domain");
  promise(fake_may_use(program.pd, mr->lkey, address, length, IBV_ACCESS_LOCAL_WRITE) == 1,
          "the device takes the local key for all of the buffer");
  if ((access & IBV_ACCESS_REMOTE_WRITE) != 0) {
    promise(fake_peer_may(program.pd, mr->rkey, address, length, IBV_ACCESS_REMOTE_WRITE) == 1,
            "the device takes the remote key for all of the buffer");
  }
}

size_t some_size(std::mt19937& random) { return size_t{1} << (random() % 18) | random() % 64; }

// A buffer per message: malloc, register, send, deregister, free.
void messages(const Program& program, unsigned seed, int count) {
  std::mt19937 random(seed);
  for (int i = 0; i < count; ++i) {
    const size_t size = some_size(random);
    auto* buffer = static_cast<char*>(malloc(size));
    buffer[0] = 'x';
    ibv_mr* mr = ibv_reg_mr(program.pd, buffer, size, kLocal);
    check(program, mr, buffer, size);
    promise(ibv_dereg_mr(mr) == 0, "deregistering succeeds");
    free(buffer);
  }
}

int steady() {
  const Program program;
  // While the heap grows, a region may lose all its pages to another, and is then deregistered.
  messages(program, 1, 20'000);
  const FakeBooks warm = settled_books();
  messages(program, 1, 80'000);
  const FakeBooks books = fake_books();
  fprintf(stderr, "%llu registrations reached libibverbs\n",
          static_cast<unsigned long long>(books.registered));
  promise(books.registered < kFewRegistrations, "regions are registered, and buffers are not");
  promise(books.deregistered == warm.deregistered, "a region stays registered");
  promise(warm.deregistered < warm.registered / 2, "few regions go");
  return 0;
}

int threads() {
  static const Program program;
  messages(program, 0, 1);  // while one thread opens the domain, the others use libibverbs
  std::vector<pthread_t> all(4);
  for (size_t i = 0; i < all.size(); ++i) {
    pthread_create(
        &all[i], nullptr,
        [](void* seed) -> void* {
          messages(program, static_cast<unsigned>(reinterpret_cast<uintptr_t>(seed)), 20'000);
          return nullptr;
        },
        reinterpret_cast<void*>(i + 1));
  }
  for (const pthread_t thread : all) pthread_join(thread, nullptr);
  promise(fake_books().registered < kFewRegistrations, "threads share the regions' registrations");
  return 0;
}

int any_order() {
  const Program program;
  std::mt19937 random(7);
  struct Buffer {
    char* at;
    size_t size;
    ibv_mr* mr;
  };
  std::vector<Buffer> buffers;
  for (int i = 0; i < 20'000; ++i) {
    if (buffers.empty() || random() % 2 == 0) {
      const size_t size = some_size(random);
      auto* at = static_cast<char*>(malloc(size));
      // Every other buffer is registered twice, as two layers of a program would.
      buffers.push_back({at, size, ibv_reg_mr(program.pd, at, size, kLocal)});
      if (i % 2 == 0) buffers.push_back({at, size, ibv_reg_mr(program.pd, at, size, kLocal)});
      continue;
    }
    const size_t victim = random() % buffers.size();
    std::swap(buffers[victim], buffers.back());
    promise(ibv_dereg_mr(buffers.back().mr) == 0, "deregistering in any order succeeds");
    buffers.pop_back();
    for (size_t probe = 0; probe < 4 && !buffers.empty(); ++probe) {
      const Buffer& still = buffers[random() % buffers.size()];
      check(program, still.mr, still.at, still.size);
    }
  }
  for (const Buffer& buffer : buffers) {
    check(program, buffer.mr, buffer.at, buffer.size);
    promise(ibv_dereg_mr(buffer.mr) == 0, "the rest is deregistered too");
  }
  promise(ibv_dereg_mr(buffers[0].mr) == EINVAL, "deregistering twice is refused");
  const FakeBooks books = fake_books();
  fprintf(stderr, "%llu registrations reached libibverbs\n",
          static_cast<unsigned long long>(books.registered));
  promise(books.registered < kFewRegistrations, "regions are registered, and buffers are not");
  return 0;
}

int domains_end() {
  Program program;
  void* buffer = malloc(5000);
  for (int round = 0; round < 300; ++round) {
    ibv_mr* mr = ibv_reg_mr(program.pd, buffer, 5000, kLocal);
    check(program, mr, buffer, 5000);
    promise(ibv_dealloc_pd(program.pd) == EBUSY, "a protection domain in use is not deallocated");
    check(program, mr, buffer, 5000);
    promise(ibv_dereg_mr(mr) == 0, "deregistering succeeds");
    promise(ibv_dealloc_pd(program.pd) == 0, "a protection domain that is not in use ends");
    promise(fake_books().live == 0, "nothing stays registered behind it");
    program.pd = ibv_alloc_pd(program.context);
  }
  return 0;
}

// Parent domains: libibverbs can destroy one while memory regions are out, since they belong to the
// underlying protection domain, which can be destroyed once they and the parent domain are gone.
int parents_end() {
  Program program;
  void* buffer = malloc(5000);
  for (int round = 0; round < 100; ++round) {
    Program parent{program.context, fake_alloc_parent_domain(program.pd)};
    ibv_mr* below = ibv_reg_mr(program.pd, buffer, 5000, kLocal);
    ibv_mr* mr = ibv_reg_mr(parent.pd, buffer, 5000, kLocal);
    check(program, below, buffer, 5000);
    check(parent, mr, buffer, 5000);
    promise(ibv_dereg_mr(below) == 0, "deregistering succeeds");
    promise(ibv_dealloc_pd(program.pd) == EBUSY, "a protection domain with a parent stays");
    promise(ibv_dealloc_pd(parent.pd) == 0, "a parent domain ends whatever is out");
    promise(ibv_dealloc_pd(program.pd) == EBUSY, "what is out keeps the protection domain");
    promise(ibv_dereg_mr(mr) == 0, "deregistering after the parent domain succeeds");
    promise(ibv_dealloc_pd(program.pd) == 0, "a protection domain that is not in use ends");
    promise(fake_books().live == 0, "nothing stays registered behind them");
    program.pd = ibv_alloc_pd(program.context);
  }
  return 0;
}

// A parent domain destroyed behind the shim's back, by a library that found the function itself.
int parent_ends_unheard() {
  const Program program;
  const Program parent{program.context, fake_alloc_parent_domain(program.pd)};
  void* buffer = malloc(5000);
  ibv_mr* mr = ibv_reg_mr(parent.pd, buffer, 5000, kLocal);
  check(parent, mr, buffer, 5000);
  promise(ibv_dereg_mr(mr) == 0, "deregistering succeeds");
  void* const library = dlopen("libibverbs.so.1", RTLD_NOLOAD | RTLD_NOW);
  auto* const dealloc =
      reinterpret_cast<decltype(&ibv_dealloc_pd)>(dlsym(library, "ibv_dealloc_pd"));
  promise(dealloc(parent.pd) == 0, "the parent domain ends");
  promise(ibv_dealloc_pd(program.pd) == 0, "the protection domain ends, too");
  promise(fake_books().live == 0, "nothing stays registered behind them");
  return 0;
}

// After the event libibverbs answers the program's calls on this device; other devices are
// unaffected.
int device_lost() {
  Program program;
  const Program other;
  void* buffer = malloc(5000);
  ibv_mr* before = ibv_reg_mr(program.pd, buffer, 5000, kLocal);
  ibv_mr* its = ibv_reg_mr(other.pd, buffer, 5000, kLocal);
  check(program, before, buffer, 5000);
  fake_lose_device(program.context);
  ibv_async_event event{};
  promise(ibv_get_async_event(program.context, &event) == 0 &&
              event.event_type == IBV_EVENT_DEVICE_FATAL,
          "the program hears of it");
  for (int i = 0; i < 10; ++i) {
    const uint64_t registered = fake_books().registered;
    ibv_mr* mr =
        ibv_reg_mr(i < 5 ? program.pd : ibv_alloc_pd(program.context), buffer, 5000, kLocal);
    promise(mr != nullptr && fake_books().registered == registered + 1,
            "libibverbs is asked for each registration");
    promise(ibv_dereg_mr(mr) == 0, "deregistering succeeds");
    ibv_mr* theirs = ibv_reg_mr(other.pd, buffer, 5000, kLocal);
    promise(fake_books().registered == registered + 1, "another device answers as before");
    check(other, theirs, buffer, 5000);
    promise(ibv_dereg_mr(theirs) == 0, "deregistering succeeds");
  }
  promise(ibv_dereg_mr(before) == 0 && ibv_dereg_mr(its) == 0, "what was answered is taken back");
  promise(ibv_close_device(program.context) == 0, "the device is closed");
  return 0;
}

// Memory is acquired after a device was closed with everything on it.
int device_closed() {
  const Program program;
  void* buffer = malloc(5000);
  ibv_mr* mr = ibv_reg_mr(program.pd, buffer, 5000, kLocal);
  check(program, mr, buffer, 5000);
  promise(ibv_close_device(program.context) == 0, "the device is closed");
  const Program other;
  for (size_t size = size_t{1} << 16; size <= size_t{1} << 27; size *= 2) {
    void* more = malloc(size);
    ibv_mr* its = ibv_reg_mr(other.pd, more, size, kLocal);
    check(other, its, more, size);
    ibv_dereg_mr(its);
  }
  return 0;
}

// By default a peer's key reaches the buffer and nothing beside it.
int remote_exact() {
  const Program program;
  auto* page = static_cast<char*>(malloc(3000));
  ibv_mr* local = ibv_reg_mr(program.pd, page, 3000, kLocal);
  check(program, local, page, 3000);
  promise(fake_peer_may(program.pd, local->rkey, page, 1, IBV_ACCESS_REMOTE_READ) == 0,
          "a local registration gives peers nothing");
  (void)settled_books();
  ibv_mr* remote = ibv_reg_mr(program.pd, page + 100, 500, kRemote);
  const FakeBooks books = fake_books();
  promise(
      books.last_address == page + 100 && books.last_length == 500 && books.last_access == kRemote,
      "exactly the range is registered, with these rights");
  check(program, remote, page + 100, 500, kRemote);
  promise(fake_peer_may(program.pd, remote->rkey, page + 99, 1, IBV_ACCESS_REMOTE_READ) == 0 &&
              fake_peer_may(program.pd, remote->rkey, page + 600, 1, IBV_ACCESS_REMOTE_READ) == 0,
          "a peer reaches nothing beside the buffer");
  check(program, local, page, 3000);
  promise(ibv_dereg_mr(remote) == 0 && fake_books().live == books.live - 1,
          "and it is deregistered when the program says so");
  return 0;
}

int remote_shared() {
  const Program program;
  std::mt19937 random(3);
  for (int i = 0; i < 10'000; ++i) {
    const size_t size = some_size(random);
    void* buffer = malloc(size);
    ibv_mr* mr = ibv_reg_mr_iova2(program.pd, buffer, size, reinterpret_cast<uintptr_t>(buffer),
                                  kRemote | IBV_ACCESS_RELAXED_ORDERING);
    check(program, mr, buffer, size, kRemote);
    ibv_dereg_mr(mr);
    free(buffer);
  }
  promise(fake_books().registered < kFewRegistrations,
          "regions are registered, and buffers are not");
  return 0;
}

// Peers have the requested rights, whichever registration answers.
void check_peers(const Program& program, const ibv_mr* mr, int access) {
  for (const int right :
       {IBV_ACCESS_REMOTE_WRITE, IBV_ACCESS_REMOTE_READ, IBV_ACCESS_REMOTE_ATOMIC}) {
    const int may =
        fake_peer_may(program.pd, mr->rkey, mr->addr, mr->length, static_cast<unsigned>(right));
    promise(may == ((access & right) != 0 ? 1 : 0), "peers have exactly the rights asked for");
  }
}

// Combinations of rights: three that give peers access, and local ones.
constexpr int kCombinations[] = {0,
                                 kLocal,
                                 IBV_ACCESS_REMOTE_READ,
                                 kLocal | IBV_ACCESS_REMOTE_READ,
                                 kLocal | IBV_ACCESS_REMOTE_WRITE,
                                 kRemote | IBV_ACCESS_REMOTE_ATOMIC};
constexpr uint64_t kPeersRights = 3;

// Registers 64 buffers in each combination. Returns the number of registrations; in *local, the
// number with local rights only.
uint64_t register_in_all(uint64_t* local) {
  constexpr size_t kSize = size_t{64} << 10;
  const Program program;
  std::vector<char*> buffers(64);
  for (char*& buffer : buffers) buffer = static_cast<char*>(malloc(kSize));
  std::vector<ibv_mr*> all;
  for (char* buffer : buffers) all.push_back(ibv_reg_mr(program.pd, buffer, kSize, kLocal));
  *local = settled_books().registered;
  for (const int access : kCombinations) {
    for (char* buffer : buffers) {
      ibv_mr* mr = ibv_reg_mr(program.pd, buffer, kSize, access);
      promise(mr != nullptr && mr->addr == buffer && mr->length == kSize,
              "the registration succeeds");
      promise(fake_may_use(program.pd, mr->lkey, buffer, kSize, access & kLocal) == 1,
              "the device takes the local key for all of the buffer");
      check_peers(program, mr, access);
      all.push_back(mr);
    }
  }
  const uint64_t registered = settled_books().registered;
  for (ibv_mr* mr : all) promise(ibv_dereg_mr(mr) == 0, "deregistering succeeds");
  promise(ibv_dealloc_pd(program.pd) == 0 && fake_books().live == 0, "nothing stays registered");
  fprintf(stderr, "%llu registrations of regions for one combination of rights, %llu in all\n",
          static_cast<unsigned long long>(*local), static_cast<unsigned long long>(registered));
  return registered;
}

int combinations() {
  uint64_t local = 0;
  const uint64_t registered = register_in_all(&local);
  // Memory that peers may access is registered buffer by buffer, as requested.
  promise(registered <= local + 4 * 64, "each region is registered once, whatever rights ask");
  return 0;
}

int combinations_shared() {
  uint64_t local = 0;
  const uint64_t registered = register_in_all(&local);
  promise(registered <= local * (1 + kPeersRights),
          "each region is registered once, and once for each set of peers' rights");
  return 0;
}

// rdm_alloc, which a program can find if the library is preloaded.
using Alloc = void* (*)(size_t, size_t, unsigned);

int exposed() {
  const auto alloc = reinterpret_cast<Alloc>(dlsym(RTLD_DEFAULT, "rdm_alloc"));
  promise(alloc != nullptr, "the library is there");
  const Program program;
  auto* shared = static_cast<char*>(alloc(1 << 20, 0, 1));
  auto* heap = static_cast<char*>(malloc(1 << 20));
  promise(shared != nullptr, "there is exposed memory");
  for (int i = 0; i < 1000; ++i) {
    ibv_mr* mr = ibv_reg_mr(program.pd, shared + i, 1000, kRemote);
    check(program, mr, shared + i, 1000, kRemote);
    promise(fake_peer_may(program.pd, mr->rkey, heap, 1, IBV_ACCESS_REMOTE_READ) == 0,
            "peers do not reach the heap with it");
    promise(ibv_dereg_mr(mr) == 0, "deregistering succeeds");
  }
  promise(fake_books().registered < kFewRegistrations,
          "regions are registered, and buffers are not");
  const uint64_t before = settled_books().registered;
  ibv_mr* mr = ibv_reg_mr(program.pd, heap, 1000, kRemote);
  check(program, mr, heap, 1000, kRemote);
  const FakeBooks books = fake_books();
  promise(books.registered == before + 1 && books.last_address == heap && books.last_length == 1000,
          "heap memory is registered for exactly the buffer");
  return 0;
}

int foreign() {
  const Program program;
  char stack[1000];
  void* mapped = mmap(nullptr, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  for (int i = 0; i < 10; ++i) {
    ibv_mr* first = ibv_reg_mr(program.pd, stack, sizeof stack, kRemote);
    ibv_mr* second = ibv_reg_mr(program.pd, mapped, 1 << 16, kLocal);
    check(program, first, stack, sizeof stack, kRemote);
    check(program, second, mapped, 1 << 16);
    promise(ibv_rereg_mr(second, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, mapped, 4096, 0) == 0,
            "libibverbs' own memory regions are re-registered by it");
    check(program, second, mapped, 4096);
    promise(ibv_dereg_mr(first) == 0 && ibv_dereg_mr(second) == 0, "deregistering succeeds");
  }
  const FakeBooks books = fake_books();
  promise(books.registered == 20 && books.deregistered == 20 && books.live == 0,
          "foreign memory is libibverbs' business, call by call");
  return 0;
}

// Calls that a region's key would not answer correctly.
int odd_calls() {
  const Program program;
  auto* buffer = static_cast<char*>(malloc(10'000));
  ibv_mr* other_address = ibv_reg_mr_iova(program.pd, buffer, 10'000, 0x1000, kLocal);
  promise(fake_books().registered == 1 && fake_books().last_length == 10'000,
          "another address for the device is libibverbs' business");
  ibv_mr* zero_based = ibv_reg_mr(program.pd, buffer, 10'000, kLocal | IBV_ACCESS_ZERO_BASED);
  promise(fake_books().registered == 2, "so is a zero-based memory region");
  errno = 0;
  promise(ibv_reg_mr(program.pd, buffer, 10, kLocal | IBV_ACCESS_ON_DEMAND) == nullptr &&
              errno == EINVAL,
          "paging on demand fails as without us");
  errno = 0;
  promise(ibv_reg_mr(program.pd, buffer, 10, IBV_ACCESS_REMOTE_WRITE) == nullptr && errno == EINVAL,
          "a remote write without a local one fails as without us");
  promise(ibv_dereg_mr(other_address) == 0 && ibv_dereg_mr(zero_based) == 0, "and deregistering");
  return 0;
}

int rereg() {
  const Program program;
  ibv_pd* second = ibv_alloc_pd(program.context);
  auto* buffer = static_cast<char*>(malloc(20'000));
  ibv_mr* mr = ibv_reg_mr(program.pd, buffer, 5000, kLocal);
  check(program, mr, buffer, 5000);
  const uint64_t before = settled_books().registered;
  promise(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, buffer + 8, 9000, 0) == 0,
          "a change of the range succeeds");
  check(program, mr, buffer + 8, 9000);
  promise(fake_books().registered == before, "... without a registration");
  promise(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, kRemote) == 0,
          "a change to remote rights succeeds");
  check(program, mr, buffer + 8, 9000, kRemote);
  promise(fake_peer_may(program.pd, mr->rkey, buffer, 1, IBV_ACCESS_REMOTE_READ) == 0,
          "... for that range alone");
  char stack[100];
  promise(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, stack, 100, 0) == 0,
          "a change to foreign memory succeeds");
  check(program, mr, stack, 100, kRemote);
  errno = 0;
  promise(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0,
                       IBV_ACCESS_REMOTE_WRITE) == IBV_REREG_MR_ERR_INPUT &&
              errno == EINVAL,
          "what libibverbs refuses is refused");
  check(program, mr, stack, 100, kRemote);
  promise(ibv_rereg_mr(mr, 8, nullptr, nullptr, 0, 0) == IBV_REREG_MR_ERR_INPUT, "so is nonsense");
  promise(
      ibv_rereg_mr(
          mr, IBV_REREG_MR_CHANGE_PD | IBV_REREG_MR_CHANGE_ACCESS | IBV_REREG_MR_CHANGE_TRANSLATION,
          second, buffer, 100, kLocal) == 0,
      "everything can be changed at once");
  promise(mr->pd == second && fake_may_use(second, mr->lkey, buffer, 100, kLocal) == 1 &&
              fake_may_use(program.pd, mr->lkey, buffer, 100, kLocal) == 0,
          "... and the key is the other protection domain's");
  promise(ibv_dealloc_pd(program.pd) == 0, "the first protection domain is free");
  promise(ibv_dealloc_pd(second) == EBUSY && ibv_dereg_mr(mr) == 0 && ibv_dealloc_pd(second) == 0,
          "the second one is after deregistering");
  promise(fake_books().live == 0, "nothing stays registered");
  return 0;
}

ibv_mr* (*volatile old_reg_mr)(ibv_pd*, void*, size_t, int) = nullptr;
extern "C" ibv_mr* reg_mr_of_old_interface(ibv_pd*, void*, size_t, int);
__asm__(".symver reg_mr_of_old_interface, ibv_reg_mr@IBVERBS_1.0");

int old_interface() {
  const Program program;
  void* buffer = malloc(100);
  old_reg_mr = reg_mr_of_old_interface;
  (void)old_reg_mr(program.pd, buffer, 100, kLocal);
  promise(fake_books().old_interface == 1, "calls of the older interface reach it");
  ibv_mr* mr = ibv_reg_mr(program.pd, buffer, 100, kLocal);
  promise(fake_books().old_interface == 1 && mr != nullptr, "and those of the newer one do not");
  return 0;
}

// The parent's memory regions in a child, under fork protection that the program requested.
int forks() {
  const Program program;
  fake_hide_from_children();
  auto* first = static_cast<char*>(malloc(1 << 20));
  auto* second = static_cast<char*>(malloc(1 << 20));
  strcpy(first, "first");
  strcpy(second, "second");
  ibv_mr* local = ibv_reg_mr(program.pd, first, 1 << 20, kLocal);
  ibv_mr* remote = ibv_reg_mr(program.pd, second, 1 << 20, kRemote);
  for (int i = 0; i < 5; ++i) {
    const ChildEnd end = run_child([&] {
      promise(strcmp(first, "first") == 0 && strcmp(second, "second") == 0, "a child has its heap");
      promise(ibv_dereg_mr(local) == 0, "a child may deregister what it inherited");
      Program own;
      void* buffer = malloc(1 << 16);
      ibv_mr* mr = ibv_reg_mr(own.pd, buffer, 1 << 16, kLocal);
      check(own, mr, buffer, 1 << 16);
      promise(ibv_dereg_mr(mr) == 0 && ibv_dealloc_pd(own.pd) == 0, "a child has its own devices");
      (void)ibv_dealloc_pd(program.pd);
    });
    promise(end.exited_well(), "the child lives and ends well");
    check(program, local, first, 1 << 20);
    check(program, remote, second, 1 << 20, kRemote);
  }
  return 0;
}

// Of memory that is malloc'd.
bool reaches_child(const char* memory) {
  const ChildEnd end = run_child([memory] {
    signal(SIGSEGV, SIG_DFL);
    return *static_cast<const volatile char*>(memory) == 'x';
  });
  return end.exited_well();
}

// The program called ibv_fork_init(), because its kernel would take its registered pages away.
int hides_for_good() {
  const Program program;
  fake_hide_from_children();
  auto* const memory = static_cast<char*>(malloc(1 << 20));
  memset(memory, 'x', 1 << 20);
  char* const inside = memory + (1 << 19);
  promise(reaches_child(inside), "a child has memory that is not registered");
  for (const int access : {kLocal, kRemote}) {
    ibv_mr* mr = ibv_reg_mr(program.pd, memory, 1 << 20, access);
    check(program, mr, memory, 1 << 20, access);
    promise(!reaches_child(inside), "a child does not have what is registered");
    promise(ibv_dereg_mr(mr) == 0, "deregistering succeeds");
  }
  return 0;
}

// An RDMA driver of this machine is not heard (socket() below): its answer would count instead.
int hidden() {
  personality(UNAME26);
  return hides_for_good();
}

// Blocks that threads have allocated, for children to check.
constexpr size_t kBlocks = 512;
constexpr size_t kBlockSize = size_t{256} << 10;
std::atomic<char*> blocks[kBlocks];
std::atomic<size_t> next_block{0};

void allocate_and_register(const Program& program) {
  for (size_t i = 0; (i = next_block.fetch_add(1)) < kBlocks;) {
    auto* block = static_cast<char*>(malloc(kBlockSize));
    block[0] = 'b';
    blocks[i] = block;
    ibv_mr* mr = ibv_reg_mr(program.pd, block, kBlockSize, kLocal);
    promise(mr != nullptr && ibv_dereg_mr(mr) == 0, "registering during forks succeeds");
    usleep(1000);
  }
}

bool reaches_all_blocks() {
  for (const std::atomic<char*>& block : blocks) {
    const char* at = block;
    if (at != nullptr && at[0] != 'b') return false;
  }
  free(malloc(kBlockSize));
  return true;
}

// Forks while regions are acquired, hidden from children by libibverbs, and made visible again.
int fork_storm() {
  static const Program program;
  fake_hide_from_children();
  pthread_t threads[2];
  for (pthread_t& thread : threads) {
    pthread_create(
        &thread, nullptr,
        [](void*) -> void* {
          allocate_and_register(program);
          return nullptr;
        },
        nullptr);
  }
  while (next_block < kBlocks) {
    promise(run_child(reaches_all_blocks).exited_well(), "a child has all of the heap");
  }
  for (const pthread_t thread : threads) pthread_join(thread, nullptr);
  return 0;
}

std::atomic<bool> is_registering{false};
std::atomic<bool> has_forked{false};

// What is under way in another thread: a region's registration, and one that the shim passes on.
int fork_within(int limit_ms) {
  static int most_ms;
  most_ms = limit_ms;
  static const Program program;
  static char* const buffer = static_cast<char*>(malloc(1 << 20));
  for (const int access : {kLocal, kRemote}) {
    is_registering = false;
    has_forked = false;
    static int rights;
    rights = access;
    fake_call_in_next_registration([] {
      is_registering = true;
      for (int i = 0; i < most_ms && !has_forked; ++i) usleep(1000);
      promise(has_forked, "a fork does not wait for another thread's registration");
      return 0;
    });
    pthread_t thread;
    pthread_create(
        &thread, nullptr,
        [](void*) -> void* {
          ibv_mr* mr = ibv_reg_mr(program.pd, buffer, 1 << 20, rights);
          check(program, mr, buffer, 1 << 20, rights);
          promise(ibv_dereg_mr(mr) == 0, "deregistering succeeds");
          return nullptr;
        },
        nullptr);
    while (!is_registering) usleep(100);
    promise(run_child([] { free(malloc(1 << 20)); }).exited_well(), "the child lives");
    has_forked = true;
    pthread_join(thread, nullptr);
  }
  return 0;
}

int fork_at_once() { return fork_within(1000); }

// The other thread's driver hangs: longer than any fork waits.
int fork_in_the_end() { return fork_within(20'000); }

// A fork that waits for its own thread's registration ends the case after this time.
constexpr unsigned kNoWaitS = 5;

void forks_at_once() {
  alarm(kNoWaitS);
  promise(run_child([] {}).exited_well(), "a later fork succeeds");
}

// Forks while the driver opens a domain, and while the shim passes a call on. A library thread may
// register the region instead; then there is no fork.
bool forks_in_driver(const Program& program, void* buffer, int access) {
  alarm(kNoWaitS);
  fake_fork_in_next_registration();
  ibv_mr* mr = ibv_reg_mr(program.pd, buffer, 5000, access);
  const pid_t child = fake_books().driver_child;
  if (child >= 0) forks_at_once();
  if (child == 0) _exit(0);
  promise(child < 0 || end_of(child).exited_well(), "the driver's child goes on and may fork");
  check(program, mr, buffer, 5000, access);
  promise(ibv_dereg_mr(mr) == 0, "deregistering succeeds");
  return child > 0;
}

int driver_forks() {
  auto* buffer = static_cast<char*>(malloc(5000));
  for (const int access : {kLocal, kRemote}) {
    bool forked = false;
    for (int i = 0; i < 50 && !forked; ++i) forked = forks_in_driver(Program{}, buffer, access);
    promise(forked, "the driver forks");
  }
  alarm(0);
  return 0;
}

// From here on this thread may only write and exit.
void forbid_system_calls() {
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 2, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{sizeof filter / sizeof *filter, filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
    puts("SKIPPED: this kernel has no seccomp filters");
    exit(77);
  }
}

int no_system_call() {
  const Program program;
  void* buffer = malloc(100'000);
  ibv_mr* mr = ibv_reg_mr(program.pd, buffer, 100'000, kLocal);
  check(program, mr, buffer, 100'000);
  ibv_dereg_mr(mr);
  fflush(stdout);
  forbid_system_calls();
  for (int i = 0; i < 1000; ++i) {
    mr = ibv_reg_mr(program.pd, buffer, 100'000, kLocal);
    ibv_dereg_mr(mr);
  }
  _exit(0);
}

constexpr verbs::Case kCases[] = {
    {"steady", steady},
    {"threads", threads},
    {"any_order", any_order},
    {"domains_end", domains_end},
    {"parents_end", parents_end},
    {"parent_ends_unheard", parent_ends_unheard},
    {"device_lost", device_lost},
    {"device_closed", device_closed},
    {"combinations", combinations},
    {"combinations_shared", combinations_shared},
    {"remote_exact", remote_exact},
    {"remote_shared", remote_shared},
    {"exposed", exposed},
    {"foreign", foreign},
    {"odd_calls", odd_calls},
    {"rereg", rereg},
    {"old_interface", old_interface},
    {"forks", forks},
    {"hidden", hidden},
    {"hidden_by_new", hides_for_good},
    {"fork_storm", fork_storm},
    {"fork_at_once", fork_at_once},
    {"fork_in_the_end", fork_in_the_end},
    {"driver_forks", driver_forks},
    {"no_system_call", no_system_call},
};

}  // namespace

// In place of libc's; drivers are asked through such a socket.
extern "C" int socket(int, int, int) noexcept {
  errno = EAFNOSUPPORT;
  return -1;
}

int main(int argc, char** argv) { return verbs::run_case(kCases, argc, argv); }
