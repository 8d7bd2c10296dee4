// A program that knows nothing of rdmalloc and whose device refuses registrations for lack of room
// (ENOMEM): its own registrations fit as they would without us, however much of its heap we have
// registered. Exit status 0: as promised, 1: not.
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <mutex>
#include <vector>

#include "fake_libibverbs.h"
#include "tests/integration/regcache/preload/verbs/verbs_case.h"

namespace {

using verbs::promise;
using verbs::settled_books;

constexpr int kLocal = IBV_ACCESS_LOCAL_WRITE;
constexpr size_t kMiB = size_t{1} << 20;
constexpr size_t kBuffer = 64 << 10;

// The device's room, and how much of it is taken.
struct Room {
  size_t bytes = SIZE_MAX;
  size_t count = SIZE_MAX;
};
std::mutex mutex;
Room most;
Room taken{0, 0};
uint64_t refused = 0;

void* take(const void*, size_t length) {
  const std::lock_guard<std::mutex> hold(mutex);
  if (taken.count + 1 > most.count || taken.bytes + length > most.bytes) {
    ++refused;
    return nullptr;
  }
  ++taken.count;
  taken.bytes += length;
  return new size_t(length);
}

void give_back(void* pages) {
  auto* const length = static_cast<size_t*>(pages);
  const std::lock_guard<std::mutex> hold(mutex);
  --taken.count;
  taken.bytes -= *length;
  delete length;
}

void limit(Room room) {
  const std::lock_guard<std::mutex> hold(mutex);
  most = room;
}

size_t taken_bytes() {
  const std::lock_guard<std::mutex> hold(mutex);
  return taken.bytes;
}

struct Program {
  ibv_context* context = fake_open_device();
  ibv_pd* pd = ibv_alloc_pd(context);

  ibv_mr* add(void* address, size_t length, int access = kLocal) const {
    ibv_mr* mr = ibv_reg_mr(pd, address, length, access);
    if (mr != nullptr) check(mr);
    return mr;
  }
  void check(const ibv_mr* mr) const {
    promise(fake_may_use(pd, mr->lkey, mr->addr, mr->length, kLocal) == 1,
            "the device takes the key for all of the buffer");
  }
};

void remove(ibv_mr* mr) { promise(ibv_dereg_mr(mr) == 0, "deregistering succeeds"); }

void* map(size_t length) {
  void* got = mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  promise(got != MAP_FAILED, "memory can be mapped");
  return got;
}

// Registers and deregisters malloc'd buffers: afterwards no part of the heap is in use.
void use_heap(const Program& program) {
  for (int i = 0; i < 64; ++i) {
    void* buffer = malloc(kBuffer << (i % 6));
    ibv_mr* mr = program.add(buffer, kBuffer);
    promise(mr != nullptr, "a malloc'd buffer is registered");
    remove(mr);
    free(buffer);
  }
  (void)settled_books();
}

int bytes() {
  const Program program;
  constexpr size_t kLength = 32 * kMiB;
  use_heap(program);
  limit({kLength + kBuffer, SIZE_MAX});
  void* mapped = map(kLength);
  for (const int access : {kLocal, kLocal | IBV_ACCESS_REMOTE_READ}) {
    ibv_mr* own = program.add(mapped, kLength, access);
    promise(own != nullptr, "what fits the device is registered");
    void* buffer = malloc(kBuffer);
    ibv_mr* mr = program.add(buffer, kBuffer);
    promise(mr != nullptr, "a malloc'd buffer fits beside it");
    program.check(own);
    remove(mr);
    remove(own);
    free(buffer);
  }
  errno = 0;
  promise(
      ibv_reg_mr(program.pd, map(2 * kLength), 2 * kLength, kLocal) == nullptr && errno == ENOMEM,
      "what does not fit is refused as ever");
  return 0;
}

int count() {
  const Program program;
  use_heap(program);
  constexpr size_t kCount = 5;
  limit({SIZE_MAX, kCount});
  std::vector<ibv_mr*> all;
  for (size_t i = 0; i < kCount; ++i) {
    all.push_back(program.add(map(kBuffer), kBuffer));
    promise(all.back() != nullptr, "the program has as many memory regions as the device has");
  }
  errno = 0;
  promise(ibv_reg_mr(program.pd, map(kBuffer), kBuffer, kLocal) == nullptr && errno == ENOMEM,
          "one more is refused as ever");
  for (ibv_mr* mr : all) remove(mr);
  return 0;
}

// A key that the program still holds stays valid, though its region takes up the room.
int held() {
  const Program program;
  void* buffer = malloc(kBuffer);
  ibv_mr* mr = program.add(buffer, kBuffer);
  promise(mr != nullptr, "a malloc'd buffer is registered");
  const FakeBooks before = settled_books();
  limit({taken_bytes() + kMiB, SIZE_MAX});
  void* mapped = map(2 * kMiB);
  for (int i = 0; i < 10; ++i) {
    errno = 0;
    promise(ibv_reg_mr(program.pd, mapped, 2 * kMiB, kLocal) == nullptr && errno == ENOMEM,
            "the device has no room");
    program.check(mr);
  }
  promise(fake_books().deregistered == before.deregistered, "what is in use stays registered");
  promise(refused == 10, "the device is not asked again where nothing was given back");
  remove(mr);
  promise(program.add(mapped, 2 * kMiB) != nullptr, "it fits when the key was given back");
  return 0;
}

// Of a large region only the requested part is in use; the rest was registered in advance, as that
// part was asked for twice.
int in_advance() {
  const Program program;
  auto* large = static_cast<char*>(malloc(128 * kMiB));
  ibv_mr* mr = program.add(large + 50 * kMiB, kBuffer);
  promise(mr != nullptr, "a malloc'd buffer is registered");
  remove(program.add(large + 50 * kMiB, kBuffer));
  for (int i = 0; i < 1000 && taken_bytes() < 128 * kMiB; ++i) usleep(10'000);
  promise(taken_bytes() > 128 * kMiB, "the rest of the region is registered, too");
  limit({96 * kMiB, SIZE_MAX});
  ibv_mr* own = program.add(map(64 * kMiB), 64 * kMiB);
  promise(own != nullptr, "what was registered in advance makes room");
  program.check(mr);
  remove(mr);
  remove(own);
  return 0;
}

// A program that keeps trying the impossible, and continues to use its heap.
int in_vain() {
  const Program program;
  use_heap(program);
  limit({256 * kMiB, SIZE_MAX});
  const uint64_t before = settled_books().registered;
  void* buffer = malloc(kBuffer);
  void* mapped = map(512 * kMiB);
  for (int i = 0; i < 2000; ++i) {
    promise(ibv_reg_mr(program.pd, mapped, 512 * kMiB, kLocal) == nullptr && errno == ENOMEM,
            "the device has no room");
    ibv_mr* mr = program.add(buffer, kBuffer);
    promise(mr != nullptr, "a malloc'd buffer is registered");
    remove(mr);
  }
  const uint64_t registered = fake_books().registered - before;
  fprintf(stderr, "%llu registrations in 2000 rounds\n",
          static_cast<unsigned long long>(registered));
  promise(registered < 40, "the heap is not registered anew each time");
  return 0;
}

// A memory region of the program's own that grows in place, and one that was a malloc'd buffer's.
int reregistered() {
  const Program program;
  use_heap(program);
  void* small = map(kBuffer);
  ibv_mr* own = program.add(small, kBuffer);
  void* buffer = malloc(kBuffer);
  ibv_mr* answered = program.add(buffer, kBuffer);
  promise(own != nullptr && answered != nullptr, "both are registered");
  remove(answered);
  (void)settled_books();
  constexpr size_t kLength = 32 * kMiB;
  limit({kLength + 2 * kBuffer, SIZE_MAX});
  const auto move = [](ibv_mr* mr, void* to, size_t length) {
    errno = 0;
    return ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, to, length, 0);
  };
  void* large = map(kLength);
  promise(move(own, large, kLength) == 0, "what fits the device is registered in place of another");
  promise(own->addr == large && own->length == kLength, "the memory region is of the new range");
  program.check(own);
  refused = 0;
  promise(move(own, map(2 * kLength), 2 * kLength) != 0 && errno == ENOMEM,
          "what does not fit is refused as ever");
  program.check(own);
  promise(refused <= 2, "the device is asked once more at most");
  promise(move(own, small, kBuffer) == 0, "less always fits");
  program.check(own);
  remove(own);
  free(buffer);
  return 0;
}

// Threads that are refused at the same time, for lack of what one of them gives back.
constexpr int kThreads = 4;
constexpr int kRounds = 100;
pthread_barrier_t all_here;

void* lack_room(void* given) {
  const Program& program = *static_cast<const Program*>(given);
  void* buffer = malloc(kBuffer);
  void* mapped = map(4 * kMiB);
  for (int i = 0; i < kRounds; ++i) {
    ibv_mr* mr = program.add(buffer, kBuffer);
    promise(mr != nullptr, "a malloc'd buffer is registered");
    remove(mr);
    pthread_barrier_wait(&all_here);
    ibv_mr* own = program.add(mapped, 4 * kMiB);
    promise(own != nullptr, "each thread has room for its own");
    pthread_barrier_wait(&all_here);  // a region in use makes no room
    mr = program.add(buffer, kBuffer);
    promise(mr != nullptr, "and for a malloc'd buffer");
    remove(mr);
    pthread_barrier_wait(&all_here);
    remove(own);
    pthread_barrier_wait(&all_here);
  }
  return nullptr;
}

int threads() {
  Program program;
  use_heap(program);
  limit({kThreads * (4 * kMiB + kBuffer), SIZE_MAX});
  pthread_barrier_init(&all_here, nullptr, kThreads);
  pthread_t all[kThreads];
  for (pthread_t& thread : all) pthread_create(&thread, nullptr, lack_room, &program);
  for (const pthread_t thread : all) pthread_join(thread, nullptr);
  return 0;
}

constexpr verbs::Case kCases[] = {
    {"bytes", bytes},
    {"count", count},
    {"held", held},
    {"in_advance", in_advance},
    {"in_vain", in_vain},
    {"threads", threads},
    {"reregistered", reregistered},
};

}  // namespace

int main(int argc, char** argv) {
  static constexpr FakeDevice kDevice = {take, give_back};
  fake_set_device(&kDevice);
  return verbs::run_case(kCases, argc, argv);
}
