// What a program can ask of jemalloc behind the allocator's back: purge, decay, reset and destroy
// arenas, change hooks, decay times, dss and growth limits. No page ever seen may leave its address
// unless that address is retired, and live objects keep their bytes. The control is stock jemalloc,
// which gives pages back.
//
//   engine_fuzz STEPS SEED
#include <sys/prctl.h>

#include <unordered_map>
#include <vector>

#include "tests/integration/engine_api.h"

namespace {

constexpr int kAllArenas = 4096;  // MALLCTL_ARENAS_ALL

probe::Verdict verdict;

struct Object {
  unsigned char* bytes = nullptr;
  size_t size = 0;
  unsigned arena = 0;
  unsigned char fill = 0;
};

class Fuzz {
 public:
  explicit Fuzz(uint64_t seed) : random_(seed) {}

  void run(uint64_t steps) {
    for (uint64_t i = 0; i < steps && verdict.count() == 0; ++i) {
      change(objects_[random_.below(objects_.size())]);
      if (random_.below(8) == 0) control();
    }
    for (const auto& [page, frame] : frames_) {
      const auto* address = reinterpret_cast<const void*>(page);
      const uint64_t now = probe::page_frame(address);
      if (now == frame || (now == 0 && is_retired(address))) continue;
      verdict.broken("page %#lx: frame %#lx, was %#lx", page, now, frame);
    }
    printf("%zu pages seen, %lu controls obeyed\n", frames_.size(), obeyed_);
  }

 private:
  // Whether its contents were moved away and the address is never used again.
  static bool is_retired(const void* address) {
    return probe::library().loaded() && probe::library().owns(address) == 0;
  }

  void change(Object& object) {
    if (object.bytes != nullptr) {
      for (const size_t at : {size_t{0}, object.size / 2, object.size - 1}) {
        if (object.bytes[at] != object.fill) verdict.broken("a live object lost its bytes");
      }
      probe::engine().dallocx(object.bytes, flags(object.arena));
      object.bytes = nullptr;
      return;
    }
    object.size = random_.size_between(16, 1 << 20);
    object.arena = arenas_.empty() ? 0 : arenas_[random_.below(arenas_.size())];
    object.fill = static_cast<unsigned char>(random_.next());
    object.bytes =
        static_cast<unsigned char*>(probe::engine().mallocx(object.size, flags(object.arena)));
    if (object.bytes == nullptr) return verdict.broken("mallocx failed");
    memset(object.bytes, object.fill, object.size);
    const auto first = reinterpret_cast<uintptr_t>(object.bytes) & ~(probe::kPage - 1);
    const auto end = reinterpret_cast<uintptr_t>(object.bytes) + object.size;
    for (uintptr_t page = first; page < end; page += probe::kPage) {
      frames_.try_emplace(page, probe::page_frame(reinterpret_cast<void*>(page)));
    }
  }

  static int flags(unsigned arena) {
    return probe::kNoTcacheFlag | (arena == 0 ? 0 : probe::arena_flag(arena));
  }

  int ask(const char* name, unsigned arena, const char* what, void* old, size_t* old_size,
          void* next, size_t next_size) {
    char path[96];
    snprintf(path, sizeof path, "%s.%u.%s", name, arena, what);
    const int error = probe::engine().mallctl(path, old, old_size, next, next_size);
    if (error == 0) ++obeyed_;
    return error;
  }

  unsigned pick_arena() {
    if (arenas_.empty() || random_.below(3) == 0) return random_.below(2) == 0 ? 0 : kAllArenas;
    return arenas_[random_.below(arenas_.size())];
  }

  // Reset and destroy discard all objects of an arena: drop them without freeing.
  void forget(unsigned arena) {
    for (Object& object : objects_) {
      if (object.arena == arena) object.bytes = nullptr;
    }
  }

  void control() {
    const unsigned arena = pick_arena();
    ssize_t decay = static_cast<ssize_t>(random_.below(3)) * 500 - 500;
    size_t limit = size_t{1} << random_.below(40);
    bool on = random_.below(2) == 0;
    void* hooks = nullptr;
    size_t size = sizeof hooks;
    const char* dss = random_.below(2) == 0 ? "primary" : "secondary";
    switch (random_.below(11)) {
      case 0:
        create_arena();
        break;
      case 1:
        ask("arena", arena, "purge", nullptr, nullptr, nullptr, 0);
        break;
      case 2:
        ask("arena", arena, "decay", nullptr, nullptr, nullptr, 0);
        break;
      case 3:
        if (arena == 0 || arena == kAllArenas) break;
        note_reset();
        if (ask("arena", arena, "reset", nullptr, nullptr, nullptr, 0) == 0) forget(arena);
        break;
      case 4:
        destroy_arena();
        break;
      case 5:
        ask("arena", arena, "retain_grow_limit", nullptr, nullptr, &limit, sizeof limit);
        break;
      case 6:
        ask("arena", arena, "dss", nullptr, nullptr, &dss, sizeof dss);
        break;
      case 7:
        ask("arena", arena, "dirty_decay_ms", nullptr, nullptr, &decay, sizeof decay);
        break;
      case 8:
        ask("arena", arena, "muzzy_decay_ms", nullptr, nullptr, &decay, sizeof decay);
        break;
      case 9:
        // Reads the default hooks and sets them again, as programs that wrap them do.
        if (ask("arena", arena, "extent_hooks", &hooks, &size, nullptr, 0) == 0) {
          ask("arena", arena, "extent_hooks", nullptr, nullptr, &hooks, sizeof hooks);
        }
        break;
      default:
        // jemalloc 5.3 may hang when it ends these threads after it paused them to reset an arena.
        if (probe::library().loaded() && (on || !paused_threads_)) {
          probe::engine().mallctl("background_thread", nullptr, nullptr, &on, sizeof on);
        }
        probe::engine().mallctl("thread.tcache.flush", nullptr, nullptr, nullptr, 0);
    }
  }

  void note_reset() {
    bool is_on = false;
    size_t size = sizeof is_on;
    probe::engine().mallctl("background_thread", &is_on, &size, nullptr, 0);
    paused_threads_ = paused_threads_ || is_on;
  }

  void create_arena() {
    unsigned arena = 0;
    size_t size = sizeof arena;
    if (arenas_.size() >= 8) return;
    if (probe::engine().mallctl("arenas.create", &arena, &size, nullptr, 0) == 0) {
      arenas_.push_back(arena);
    }
  }

  void destroy_arena() {
    if (arenas_.empty()) return;
    const unsigned arena = arenas_.back();
    note_reset();
    if (ask("arena", arena, "destroy", nullptr, nullptr, nullptr, 0) != 0) return;
    forget(arena);
    arenas_.pop_back();
  }

  probe::Random random_;
  std::vector<unsigned> arenas_;
  std::vector<Object> objects_{100};
  std::unordered_map<uintptr_t, uint64_t> frames_;
  uint64_t obeyed_ = 0;
  bool paused_threads_ = false;
};

}  // namespace

int main(int argc, char** argv) {
  probe::need_page_frames();
  if (probe::engine().mallctl == nullptr) probe::refused("no jemalloc in this process");
  // Where the kernel makes huge pages unasked, it moves bytes to them that stay at their address.
  (void)prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
  Fuzz(probe::argument(argc, argv, 2, 1)).run(probe::argument(argc, argv, 1, 5000));
  return verdict.status();
}
