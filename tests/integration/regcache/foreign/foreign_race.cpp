// The race between changing memory and reporting the change: one thread ends a page's life at its
// address, another takes the address as soon as the kernel allows, often before the first has
// returned from its call. What it writes there must be what its device sends.
//
//   foreign_race libc|raw|raw_taker MONITOR ROUNDS
//
// raw: the first thread makes system calls that no function intercepts; raw_taker: both do, until
// something is stale or for minutes, because on a busy machine the two seldom meet.
#include <sched.h>

#include <atomic>
#include <thread>

#include "tests/integration/regcache/foreign/foreign.h"
#include "tests/integration/regcache/foreign/monitor/memory_calls.h"

namespace {

const size_t kLength = 4 * probe::kPage;
constexpr uint64_t kMostNs = 3'000'000'000;  // per way
constexpr uint64_t kPatienceNs = 150'000'000'000;

probe::Staleness staleness;
probe::ForeignDevice* device = nullptr;
const probe::MemoryCalls* calls = nullptr;
const probe::MemoryCalls* takers_calls = nullptr;
std::atomic<uint64_t> seeds{1};
std::atomic<uint64_t> tried{0};

bool check(char* memory, size_t length, const char* what) {
  const uint64_t seed = seeds.fetch_add(1);
  const probe::Content content(seed);
  content.fill(memory, length);
  return staleness.check(device->send(memory, length, content), what, memory, length, seed);
}

char* map_new(size_t length, int flags = MAP_PRIVATE) {
  void* got = calls->map(nullptr, length, flags | MAP_ANONYMOUS);
  if (got == MAP_FAILED) probe::skip("out of memory");
  return static_cast<char*>(got);
}

void pause_for(uint64_t turns) {
  for (; turns > 0; --turns) asm volatile("");
}

// The two threads' parts in a round. `change` ends the mapping whose address `take` waits for.
struct Way {
  const char* name;
  int flags;
  void (*change)(char* memory);
  void (*take)(char* memory);
};

// The shared state of a round: `start` tells the taker the address; `ready` and `done` come back.
struct Meeting {
  std::atomic<char*> start{nullptr};
  std::atomic<bool> ready{false};
  std::atomic<bool> done{false};
  std::atomic<bool> over{false};
};

// Takes the address that another thread is about to unmap, unless a third thread has it.
void take_unmapped(char* memory) {
  const uint64_t give_up = probe::now_ns() + 20'000'000;
  constexpr int kThere = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
  while (takers_calls->map(memory, kLength, kThere) == MAP_FAILED) {
    if (probe::now_ns() > give_up) return;
    pause_for(500);  // otherwise the other thread waits long for the kernel's lock
  }
  tried.fetch_add(1);
  check(memory, kLength, "another thread's unmapping");
  check(memory, kLength, "a second look");
  calls->unmap(memory, kLength);
}

// One page, because several are dropped one after the other.
void take_dropped(char* memory) {
  const volatile char* const byte = memory;
  while (*byte != 0) {
  }
  tried.fetch_add(1);
  check(memory, probe::kPage, "another thread's dropping");
}

// Repeatedly registers what is being changed; refusals are fine.
void poach(char* memory) {
  for (int i = 0; i < 8; ++i) {
    rdm_mr mr{};
    if (device->get(memory, probe::kPage, &mr) == RDM_OK) (void)device->put(mr);
  }
}

void unmap(char* memory) { calls->unmap(memory, kLength); }

void move_away(char* memory) {
  char* place = map_new(kLength);
  void* moved = calls->remap(memory, kLength, kLength, MREMAP_MAYMOVE | MREMAP_FIXED, place);
  if (moved == MAP_FAILED) return staleness.verdict().broken("mremap: %s", strerror(errno));
  check(place, kLength, "moving it here");
  calls->unmap(place, kLength);
}

void drop(char* memory) { calls->advise(memory, probe::kPage, MADV_DONTNEED); }

void drop_and_look(char* memory) {
  calls->advise(memory, probe::kPage, MADV_DONTNEED);
  tried.fetch_add(1);
  check(memory, probe::kPage, "dropping what another thread was registering");
}

void remove_and_look(char* memory) {
  calls->advise(memory, probe::kPage, MADV_REMOVE);
  tried.fetch_add(1);
  check(memory, probe::kPage, "removing what another thread was registering");
}

void replace_and_look(char* memory) {
  if (calls->map(memory, kLength, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED) != memory) {
    return staleness.verdict().broken("mmap over it: %s", strerror(errno));
  }
  tried.fetch_add(1);
  check(memory, probe::kPage, "replacing what another thread was registering");
}

constexpr Way kWays[] = {
    {"unmap, and take the address", MAP_PRIVATE, unmap, take_unmapped},
    {"move, and take the address", MAP_PRIVATE, move_away, take_unmapped},
    {"drop, and write", MAP_PRIVATE, drop, take_dropped},
    {"drop while it is registered", MAP_PRIVATE, drop_and_look, poach},
    {"remove while it is registered", MAP_SHARED, remove_and_look, poach},
    {"replace while it is registered", MAP_PRIVATE, replace_and_look, poach},
};

void be_taker(const Way& way, Meeting& meeting) {
  while (!meeting.over) {
    char* memory = meeting.start.exchange(nullptr);
    if (memory == nullptr) {
      sched_yield();
      continue;
    }
    meeting.ready = true;
    way.take(memory);
    meeting.done = true;
  }
}

void run(const Way& way, uint64_t rounds) {
  Meeting meeting;
  std::thread taker([&] { be_taker(way, meeting); });
  const uint64_t end = probe::now_ns() + kMostNs;
  const uint64_t before = tried;
  const uint64_t stale = staleness.stale();
  uint64_t round = 0;
  for (; round < rounds && probe::now_ns() < end; ++round) {
    char* memory = map_new(kLength, way.flags);
    check(memory, kLength, "mapping it");
    memory[0] = 1;  // a zero shows that the page is gone
    meeting.ready = meeting.done = false;
    meeting.start = memory;
    while (!meeting.ready) sched_yield();
    pause_for(seeds.fetch_add(1) % 512);
    way.change(memory);
    while (!meeting.done) sched_yield();
    if (way.take != take_unmapped) calls->unmap(memory, kLength);
  }
  meeting.over = true;
  taker.join();
  printf("%s: %lu rounds, %lu of them tried it, %lu stale\n", way.name, round, tried - before,
         staleness.stale() - stale);
  if (tried - before < round / 4) staleness.verdict().broken("%s: seldom tried", way.name);
}

}  // namespace

int main(int argc, char** argv) {
  const char* const how = argc > 1 ? argv[1] : "";
  using probe::MemoryCalls;
  const MemoryCalls made(strncmp(how, "raw", 3) == 0 ? MemoryCalls::kAll : MemoryCalls::kNone);
  const bool is_control = strcmp(how, "raw_taker") == 0;
  const MemoryCalls taken(is_control ? MemoryCalls::kAll : MemoryCalls::kNone);
  calls = &made;
  takers_calls = &taken;
  const char* monitor = argc > 2 ? argv[2] : "any";
  const uint64_t rounds = probe::argument(argc, argv, 3, 3000);
  const uint64_t before = probe::pinned_by_kernel();
  {
    probe::ForeignDevice shared(kLength, {}, staleness.verdict());
    device = &shared;
    probe::need_monitor(monitor);
    const uint64_t end = probe::now_ns() + kPatienceNs;
    do {
      for (const Way& way : kWays) run(way, rounds);
    } while (is_control && staleness.stale() == 0 && probe::now_ns() < end);
    if (shared.close() != RDM_OK) {
      staleness.verdict().broken("closing: %s", probe::foreign().last_error());
    }
  }
  if (!probe::comes_to(before, probe::pinned_by_kernel)) {
    staleness.verdict().broken("%lu bytes stay pinned", probe::pinned_by_kernel() - before);
  }
  return staleness.status();
}
