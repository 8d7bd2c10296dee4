// A thread of foreign_churn: how it changes and checks its memory; and the state that such threads
// share.
#pragma once

#include <pthread.h>
#include <stdio.h>
#include <sys/ipc.h>
#include <sys/utsname.h>

#include <atomic>

#include "tests/integration/regcache/foreign/foreign_ranges.h"

namespace probe {

// Where a thread has memory, or had it recently.
struct Published {
  std::atomic<char*> base{nullptr};
  std::atomic<size_t> length{0};
};

struct ChurnShared {
  static constexpr size_t kRanges = 8;  // of a thread
  static constexpr size_t kMostThreads = 8;
  static constexpr size_t kDevices = 2;
  static constexpr uint64_t kFewestRounds = 1000;  // however long they take

  Staleness staleness;
  uint64_t seed = 1;
  uint64_t threads = 1;
  const MemoryCalls* calls = nullptr;
  const char* plugin = nullptr;
  ForeignDevice* devices[kDevices] = {};
  std::mutex one_at_a_time;  // for resources that exist once per process
  Range mailbox;             // under the same lock
  Published published[kMostThreads][kRanges];
  std::atomic<uint64_t> rounds{0};
  std::atomic<uint64_t> poached{0};
  std::atomic<uint64_t> libraries{0};
};

class Churn {
 public:
  Churn(ChurnShared& shared, uint64_t thread)
      : shared_(shared), thread_(thread), random_(shared.seed * 1000 + thread) {}
  void run(uint64_t rounds, uint64_t end_ns);

 private:
  static constexpr size_t kStackBytes = size_t{48} << 10;

  // Rounds per refused mremap() that is tolerated: under Linux 6.1 some 200 were seen.
  static uint64_t rounds_of_refusal() {
    utsname system{};
    uname(&system);
    int major = 0;
    int minor = 0;
    sscanf(system.release, "%d.%d", &major, &minor);
    return major < 6 || (major == 6 && minor < 5) ? 100 : 1000;
  }
  ForeignDevice& any_device() { return *shared_.devices[random_.below(ChurnShared::kDevices)]; }
  void check(const char* what, char* memory, size_t length, const Content& content);
  void check_known(const Changed& changed);
  void use(const char* what, char* memory, size_t length);
  Changed change(Range& range);
  Changed any_change(Range& range);
  void change_while_held(Range& range);
  void be_rare();
  void fork_and_write();
  void poach();
  void hand_over(Range& range);
  void use_break();
  void use_stack();
  void use_library();
  void use_segment();

  ChurnShared& shared_;
  const uint64_t thread_;
  Random random_;
  Ranges ranges_{*shared_.calls, random_};
  Range owned_[ChurnShared::kRanges];
};

// The memory holds this, and a device agrees.
inline void Churn::check(const char* what, char* memory, size_t length, const Content& content) {
  shared_.staleness.check(any_device().send(memory, length, content), what, memory, length,
                          shared_.seed);
}

// Checks what a change left, before anything is written there.
inline void Churn::check_known(const Changed& changed) {
  if (changed.length == 0) return;
  check(changed.name, changed.base, changed.length, changed.content);
}

// Any part of it, in both directions.
inline void Churn::use(const char* what, char* memory, size_t length) {
  const size_t offset = random_.below(length);
  const size_t some = 1 + random_.below(length - offset);
  const Content content(random_.next());
  if (random_.below(3) != 0) {
    content.fill(memory + offset, some);
    check(what, memory + offset, some, content);
  } else {
    shared_.staleness.check(any_device().receive(memory + offset, some, content), what,
                            memory + offset, some, shared_.seed);
  }
}

inline Changed Churn::any_change(Range& range) {
  if (range.base == nullptr) return ranges_.map(range);
  switch (random_.below(9)) {
    case 0:
      return ranges_.unmap(range);
    case 1:
      return ranges_.trim(range);
    case 2:
      return ranges_.replace(range);
    case 3:
      return ranges_.move(range, random_.next());
    case 4:
      return ranges_.move_away(range, random_.next());
    case 5:
      return ranges_.empty(range);
    case 6:
      return ranges_.renew(range);
    default:
      return ranges_.drop(range);
  }
}

inline Changed Churn::change(Range& range) {
  const Changed changed = any_change(range);
  range.last_change = changed.name;
  return changed;
}

// While it still transfers through the old registration, that must not be given to the next user.
inline void Churn::change_while_held(Range& range) {
  if (range.base == nullptr) ranges_.map(range);
  ForeignDevice& device = any_device();
  rdm_mr held{};
  if (device.get(range.base, range.length, &held) != RDM_OK) {
    if (kernel_refuses_file(range.base, range.length)) return;
    return shared_.staleness.verdict().broken("seed %lu: holding %zu bytes: %s", shared_.seed,
                                              range.length, foreign().last_error());
  }
  check_known(change(range));
  if (range.base != nullptr) use(range.last_change, range.base, range.length);
  if (device.put(held) != RDM_OK) {
    shared_.staleness.verdict().broken("seed %lu: put after a change: %s", shared_.seed,
                                       foreign().last_error());
  }
}

// Registers another thread's memory while its owner may be changing it; refusals are fine.
inline void Churn::poach() {
  const Published& place =
      shared_.published[random_.below(shared_.threads)][random_.below(ChurnShared::kRanges)];
  char* base = place.base;
  const size_t length = place.length;
  if (base == nullptr || length == 0) return;
  const size_t offset = random_.below(length);
  rdm_mr mr{};
  ForeignDevice& device = any_device();
  if (device.get(base + offset, 1 + random_.below(length - offset), &mr) != RDM_OK) return;
  (void)device.put(mr);
  ++shared_.poached;
}

// Gives it to another thread, which replaces it with new memory.
inline void Churn::hand_over(Range& range) {
  if (range.base == nullptr) return;
  {
    const std::lock_guard hold(shared_.one_at_a_time);
    const Range mine = range;
    range = shared_.mailbox;
    shared_.mailbox = mine;
  }
  if (range.base == nullptr) return;
  void* got = shared_.calls->map(range.base, range.length, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED);
  if (got != range.base) skip("out of memory");
  range.backing = Backing::kPrivate;
  range.whole = true;
  range.last_change = "mapping over another thread's memory";
  check(range.last_change, range.base, range.length, Content::zero());
}

inline void Churn::fork_and_write() {
  Range& range = owned_[random_.below(ChurnShared::kRanges)];
  if (range.base == nullptr) ranges_.map(range);
  use("mapping, before fork", range.base, range.length);
  const bool is_private =
      range.backing == Backing::kPrivate || range.backing == Backing::kPrivateFile;
  const pid_t child = start_child([&] {
    for (size_t i = 0; is_private && i < range.length; i += kPage) range.base[i] = 1;
  });
  use("fork", range.base, range.length);
  end_of(child);
  use("a child's end", range.base, range.length);
}

inline void Churn::use_break() {
  const std::lock_guard hold(shared_.one_at_a_time);
  const auto length = static_cast<intptr_t>((1 + random_.below(16)) * kPage);
  char* memory = shared_.calls->move_break(length);
  if (reinterpret_cast<uintptr_t>(memory) == UINTPTR_MAX) return;
  check("moving the break", memory, static_cast<size_t>(length), Content::zero());
  use("moving the break", memory, static_cast<size_t>(length));
  shared_.calls->move_break(-length);
}

// A new thread's stack is the last one's, or what is left of it.
inline void Churn::use_stack() {
  for (int i = 0; i < 2; ++i) {
    pthread_t thread;
    const auto body = [](void* churn) -> void* {
      char memory[kStackBytes];
      static_cast<Churn*>(churn)->use("a thread's end", memory, sizeof memory);
      return nullptr;
    };
    if (pthread_create(&thread, nullptr, body, this) != 0) return;
    pthread_join(thread, nullptr);
  }
}

inline void Churn::use_library() {
  if (shared_.plugin == nullptr) return;
  const std::lock_guard hold(shared_.one_at_a_time);
  void* library = dlopen(shared_.plugin, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return;  // an ordinary user may be unable to read it
  for (const char* name : {"foreign_plugin_data", "foreign_plugin_bss"}) {
    auto* memory = static_cast<char*>(dlsym(library, name));
    use("dlclose and dlopen", memory, size_t{64} << 10);
  }
  dlclose(library);
  ++shared_.libraries;
}

inline void Churn::use_segment() {
  const size_t length = (1 + random_.below(16)) * kPage;
  const int id = shmget(IPC_PRIVATE, length, 0600 | IPC_CREAT);
  if (id < 0) return;
  void* got = shmat(id, nullptr, 0);
  shmctl(id, IPC_RMID, nullptr);
  if (reinterpret_cast<intptr_t>(got) == -1) return;
  auto* memory = static_cast<char*>(got);
  check("shmat", memory, length, Content::zero());
  use("shmat", memory, length);
  shared_.calls->detach(memory);
}

inline void Churn::be_rare() {
  const uint64_t what = random_.below(64);
  if (what == 0) return fork_and_write();
  if (what < 4) return use_stack();
  if (what < 6) return use_library();
  if (what < 9) return use_segment();
  if (what < 12) return use_break();
}

inline void Churn::run(uint64_t rounds, uint64_t end_ns) {
  const auto is_time = [&] {
    return now_ns() < end_ns || shared_.rounds < ChurnShared::kFewestRounds;
  };
  for (uint64_t i = 0; i < rounds && is_time(); ++i) {
    const size_t index = random_.below(ChurnShared::kRanges);
    Range& range = owned_[index];
    if (i % 4 == 0) be_rare();
    const uint64_t way = random_.below(16);
    if (way == 0) {
      hand_over(range);
    } else if (way < 3) {
      change_while_held(range);
    } else {
      check_known(change(range));
    }
    if (range.base != nullptr) {
      shared_.published[thread_][index].length = range.length;
      shared_.published[thread_][index].base = range.base;
      use(range.last_change, range.base, range.length);
      if (way % 2 == 0) use("nothing", range.base, range.length);
    }
    if (way % 4 == 0) poach();
    ++shared_.rounds;
  }
  for (Range& range : owned_) {
    if (range.base != nullptr) ranges_.unmap(range);
  }
  if (ranges_.refusals() == 0) return;
  // The kernel does not move several mappings at once, and watching may split one: see
  // regcache/foreign/monitor/userfaultfd.h.
  const bool is_known = ranges_.last_error() == EFAULT &&
                        strcmp(foreign().monitor(nullptr), "userfaultfd") == 0 &&
                        ranges_.refusals() * rounds_of_refusal() < shared_.rounds;
  if (is_known) {
    printf("seed %lu: %lu calls of %s were refused\n", shared_.seed, ranges_.refusals(),
           ranges_.last_refusal());
  } else {
    shared_.staleness.verdict().broken(
        "seed %lu: %lu calls were refused that would not be without us: %s: %s", shared_.seed,
        ranges_.refusals(), ranges_.last_refusal(), strerrordesc_np(ranges_.last_error()));
  }
}

}  // namespace probe
