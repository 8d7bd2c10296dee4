// Exposed memory and all other memory are kept apart.
//
//   exposed_apart storm THREADS OPERATIONS FLAGS SEED
//     Threads allocate, resize and free with rdm_alloc(FLAGS) and with malloc, small and large,
//     some objects in other threads. Exposed objects never lie in ordinary regions, nor ordinary
//     ones in exposed regions, and all keep their contents. With FLAGS 0 that is impossible.
//   exposed_apart overwritten FLAGS
//     A peer with keys overwrites all regions that hold memory from rdm_alloc(FLAGS), free pages
//     included. The process must survive: no allocator data lies there. With FLAGS 0 it dies.
#include <malloc.h>

#include <algorithm>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "tests/integration/engine_api.h"
#include "tests/integration/exposed.h"

namespace {

using probe::Random;

probe::Verdict verdict;

struct Object {
  unsigned char* bytes = nullptr;
  size_t size = 0;
  bool exposed = false;
  unsigned char mark = 0;
};

class Storm {
 public:
  Storm(uint64_t seed, unsigned flags) : random_(seed), flags_(flags) {}

  void run(size_t operations) {
    for (size_t i = 0; i < operations && verdict.count() < 10; ++i) step();
    for (Object& object : objects_) release(object);
  }

 private:
  void step() {
    Object& object = objects_[random_.below(std::size(objects_))];
    if (object.bytes == nullptr) return create(object);
    check(object, object.size);
    switch (random_.below(4)) {
      case 0:
        return resize(object);
      case 1:
        return exchange(object);
      default:
        return release(object);
    }
  }

  // Sizes that thread caches hold, which must never receive exposed memory.
  size_t pick_size() { return random_.size_between(1, random_.below(4) == 0 ? 300000 : 8192); }

  void create(Object& object) {
    const size_t size = pick_size();
    const bool exposed = random_.below(2) == 0;
    const size_t alignment = random_.below(3) == 0 ? size_t{1} << random_.below(17) : 0;
    void* got = exposed ? probe::exposed().alloc(size, alignment, flags_) : malloc(size);
    if (got == nullptr) return verdict.broken("%zu bytes, exposed %d: refused", size, exposed);
    if (alignment != 0 && exposed && reinterpret_cast<uintptr_t>(got) % alignment != 0) {
      verdict.broken("%p is not aligned to %zu", got, alignment);
    }
    take(object, got, size, exposed);
  }

  void take(Object& object, void* got, size_t size, bool exposed) {
    object = {static_cast<unsigned char*>(got), size, exposed,
              static_cast<unsigned char>(random_.next())};
    memset(got, object.mark, size);
    const size_t usable = malloc_usable_size(got);
    if (usable < size) verdict.broken("%zu bytes, exposed %d: %zu usable", size, exposed, usable);
    rdm_region region{};
    if (!probe::region_of(got, usable, &region)) {
      verdict.broken("%zu bytes at %p lie in no one region", size, got);
    } else if ((region.exposed != 0) != exposed) {
      verdict.broken("%zu bytes at %p, exposed %d, lie in a region with exposed %d", size, got,
                     exposed, region.exposed);
    } else if (exposed && (region.kind != RDM_REGION_PINNED || region.locked == 0)) {
      verdict.broken("exposed memory at %p is not pinned", got);
    }
  }

  void check(const Object& object, size_t bytes) {
    const auto is_marked = [&](unsigned char byte) { return byte == object.mark; };
    if (!std::all_of(object.bytes, object.bytes + bytes, is_marked)) {
      verdict.broken("%zu bytes at %p, exposed %d, lost their contents", object.size,
                     static_cast<void*>(object.bytes), object.exposed);
    }
  }

  void resize(Object& object) {
    const size_t size = pick_size();
    void* got = realloc(object.bytes, size);
    if (got == nullptr) return verdict.broken("realloc to %zu bytes refused", size);
    object.bytes = static_cast<unsigned char*>(got);
    check(object, std::min(size, object.size));
    take(object, got, size, object.exposed);
  }

  void release(Object& object) {
    if (object.bytes == nullptr) return;
    check(object, object.size);
    switch (random_.below(4)) {
      case 0:
        free(object.bytes);
        break;
      case 1:
        probe::engine().dallocx(object.bytes, 0);
        break;
      case 2:
        // Sized free trusts the size: a thread cache would receive the page. For aligned memory
        // that is not exposed, the size would be wrong.
        if (object.exposed && flags_ == 0) return free(std::exchange(object, {}).bytes);
        probe::engine().sdallocx(object.bytes, object.size, 0);
        break;
      default:
        probe::exposed().free(object.bytes);
    }
    object = {};
  }

  // Swaps with the object of whichever thread was here before.
  void exchange(Object& object) {
    static std::mutex mutex;
    static Object market[16];
    const std::lock_guard hold(mutex);
    std::swap(object, market[random_.below(16)]);
  }

  Random random_;
  const unsigned flags_;
  Object objects_[40] = {};
};

void storm(size_t count, size_t operations, unsigned flags, uint64_t seed) {
  std::vector<std::thread> threads;
  for (size_t i = 0; i < count; ++i) {
    threads.emplace_back([=] { Storm(seed * 100 + i, flags).run(operations); });
  }
  for (std::thread& thread : threads) thread.join();
}

// In a child, because it may die.
int overwrite_and_go_on(unsigned flags) {
  std::vector<void*> objects;
  for (size_t i = 1; i < 64; ++i) {
    objects.push_back(probe::exposed().alloc(i * 100, 0, flags));
    objects.push_back(probe::exposed().alloc(i * 5000, 0, flags));
  }
  // Freeing half of the small ones leaves gaps; objects of every size stay.
  for (size_t i = 0; i < objects.size(); i += 4) {
    probe::exposed().free(std::exchange(objects[i], nullptr));
  }
  std::erase(objects, nullptr);
  rdm_region last{};
  for (void* object : objects) {
    rdm_region region{};
    if (!probe::region_of(object, 1, &region)) return probe::kBroken;
    if (region.base == last.base) continue;
    last = region;
    memset(region.base, 0xa5, region.length);
  }
  for (void* object : objects) probe::exposed().free(object);
  Storm(1, flags).run(5000);
  return flags == RDM_EXPOSED ? verdict.status() : probe::kHolds;
}

void check_overwritten(unsigned flags) {
  verdict.expect_good_end("the process whose regions were written",
                          probe::run_child([=] { return overwrite_and_go_on(flags); }));
}

}  // namespace

int main(int argc, char** argv) {
  if (!probe::library().loaded()) {
    verdict.broken("no library: no memory is exposed, and none is not");
    return verdict.status();
  }
  if (argc > 1 && strcmp(argv[1], "overwritten") == 0) {
    check_overwritten(static_cast<unsigned>(probe::argument(argc, argv, 2, RDM_EXPOSED)));
  } else {
    storm(probe::argument(argc, argv, 2, 8), probe::argument(argc, argv, 3, 20000),
          static_cast<unsigned>(probe::argument(argc, argv, 4, RDM_EXPOSED)),
          probe::argument(argc, argv, 5, 1));
  }
  return verdict.status();
}
