// Random calls of every allocation, resizing and freeing function, with all contents checked: each
// object is filled to its last usable byte with its own pattern, so that overlap, loss and stale
// zeros show. Several threads; objects also change hands and are freed elsewhere.
//
//   storm THREADS OPERATIONS_PER_THREAD SEED LEAST_SIZE MOST_SIZE
#include <malloc.h>

#include <algorithm>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "tests/integration/engine_api.h"
#include "tests/integration/probe.h"

namespace {

using probe::engine;
using probe::Random;

probe::Verdict verdict;

struct Object {
  char* bytes = nullptr;
  size_t requested = 0;
  size_t filled = 0;     // bytes that hold the pattern
  size_t alignment = 0;  // 0: malloc's default
  uint64_t pattern = 0;
};

uint64_t word(const Object& object, size_t index) {
  return (object.pattern + index) * 0x9E3779B97F4A7C15U;
}

void fill(Object& object, size_t bytes) {
  object.filled = bytes;
  size_t index = 0;
  for (; (index + 1) * 8 <= bytes; ++index) {
    const uint64_t value = word(object, index);
    memcpy(object.bytes + index * 8, &value, 8);
  }
  const uint64_t value = word(object, index);
  memcpy(object.bytes + index * 8, &value, bytes - index * 8);
}

// Whether the first `bytes` bytes are still what fill() wrote.
bool is_kept(const Object& object, size_t bytes) {
  size_t index = 0;
  for (; (index + 1) * 8 <= bytes; ++index) {
    uint64_t value = 0;
    memcpy(&value, object.bytes + index * 8, 8);
    if (value != word(object, index)) return false;
  }
  const uint64_t value = word(object, index);
  return memcmp(object.bytes + index * 8, &value, bytes - index * 8) == 0;
}

bool is_zero(const char* bytes, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (bytes[i] != 0) return false;
  }
  return true;
}

class Storm {
 public:
  Storm(uint64_t seed, size_t least, size_t most) : random_(seed), least_(least), most_(most) {}

  void run(size_t operations) {
    for (size_t i = 0; i < operations && verdict.count() < 20; ++i) step();
    for (Object& object : objects_) release(object);
  }

 private:
  static constexpr size_t kObjects = 24;

  void step() {
    Object& object = objects_[random_.below(kObjects)];
    if (object.bytes == nullptr) {
      create(object);
      return;
    }
    check(object, object.filled, "a live object");
    switch (random_.below(6)) {
      case 0:
        release(object);
        break;
      case 1:
        exchange(object);
        break;
      case 2:
        resize_in_place(object);
        break;
      default:
        resize(object);
    }
  }

  size_t pick_size() { return random_.size_between(least_, most_); }

  // Near the current size: within the class, across its borders, across a page.
  size_t pick_size_near(size_t present) {
    if (random_.below(3) == 0) return pick_size();
    const size_t span = random_.below(2) == 0 ? 3 * probe::kPage : present / 2 + 1;
    const size_t size = present + random_.below(2 * span + 1);
    return size > span + least_ ? size - span : least_;
  }

  void check(const Object& object, size_t bytes, const char* what) {
    if (is_kept(object, bytes)) return;
    verdict.broken("%s of %zu bytes (usable %zu) at %p lost its contents", what, object.requested,
                   object.filled, static_cast<void*>(object.bytes));
  }

  // Checks an allocation's promises and fills it.
  void take(Object& object, void* pointer, size_t size, size_t alignment, bool zeroed,
            const char* call) {
    object.bytes = static_cast<char*>(pointer);
    object.requested = size;
    object.alignment = alignment;
    object.pattern = random_.next();
    if (pointer == nullptr) {
      verdict.broken("%s of %zu bytes failed", call, size);
      return;
    }
    if (alignment != 0 && reinterpret_cast<uintptr_t>(pointer) % alignment != 0) {
      verdict.broken("%s of %zu bytes is not aligned to %zu", call, size, alignment);
    }
    if (zeroed && !is_zero(object.bytes, size)) verdict.broken("%s of %zu: not zero", call, size);
    fill(object, usable(object, call));
  }

  size_t usable(const Object& object, const char* call) {
    const size_t bytes = malloc_usable_size(object.bytes);
    if (bytes < object.requested) {
      verdict.broken("%s of %zu bytes: only %zu usable", call, object.requested, bytes);
    }
    if (engine().sallocx != nullptr && engine().sallocx(object.bytes, 0) != bytes) {
      verdict.broken("%s of %zu bytes: sallocx differs from malloc_usable_size", call,
                     object.requested);
    }
    return bytes;
  }

  void create(Object& object) {
    const size_t size = pick_size();
    const size_t alignment = size_t{1} << (4 + random_.below(18));
    const bool zero = random_.below(2) == 0;
    void* out = nullptr;
    switch (random_.below(engine().mallocx == nullptr ? 9 : 11)) {
      case 0:
        return take(object, malloc(size), size, 0, false, "malloc");
      case 1:
        return take(object, calloc(size, 1), size, 0, true, "calloc");
      case 2:
        return take(object, realloc(nullptr, size), size, 0, false, "realloc of null");
      case 3:
        if (posix_memalign(&out, alignment, size) != 0) out = nullptr;
        return take(object, out, size, alignment, false, "posix_memalign");
      case 4:
        return take(object, aligned_alloc(alignment, size), size, alignment, false,
                    "aligned_alloc");
      case 5:
        return take(object, memalign(alignment, size), size, alignment, false, "memalign");
      case 6:
        return take(object, valloc(size), size, probe::kPage, false, "valloc");
      case 7:
        // Stock jemalloc has no pvalloc: the call would reach libc.
        if (engine().mallocx != nullptr && !probe::library().loaded()) return;
        return take(object, pvalloc(size), size, probe::kPage, false, "pvalloc");
      case 8:
        return take(object, reallocarray(nullptr, size, 1), size, 0, false, "reallocarray");
      case 9:
        return take(object, engine().mallocx(size, zero ? probe::kZeroFlag : 0), size, 0, zero,
                    "mallocx");
      default:
        return take(
            object,
            engine().mallocx(size, probe::align_flag(alignment) | (zero ? probe::kZeroFlag : 0)),
            size, alignment, zero, "aligned mallocx");
    }
  }

  void release(Object& object) {
    if (object.bytes == nullptr) return;
    check(object, object.filled, "an object to be freed");
    const int flags = object.alignment == 0 ? 0 : probe::align_flag(object.alignment);
    switch (random_.below(engine().dallocx == nullptr ? 1 : 4)) {
      case 0:
        free(object.bytes);
        break;
      case 1:
        engine().dallocx(object.bytes, flags);
        break;
      case 2:
        engine().sdallocx(object.bytes, object.requested, flags);
        break;
      default:
        // Any size between the requested and the usable size is legal.
        engine().sdallocx(object.bytes, object.filled, flags);
    }
    object = Object{};
  }

  void resize(Object& object) {
    const size_t size = pick_size_near(object.requested);
    const size_t before = object.filled;
    bool zero = false;
    size_t alignment = 0;
    void* moved = nullptr;
    const char* call = "realloc";
    const uint64_t kind = random_.below(engine().rallocx == nullptr ? 2 : 6);
    if (kind == 0) {
      moved = realloc(object.bytes, size);
    } else if (kind == 1) {
      moved = reallocarray(object.bytes, size, 1);
    } else {
      call = "rallocx";
      zero = random_.below(2) == 0;
      if (kind == 5) alignment = size_t{1} << (4 + random_.below(18));
      moved = engine().rallocx(
          object.bytes, size,
          (zero ? probe::kZeroFlag : 0) | (alignment != 0 ? probe::align_flag(alignment) : 0));
    }
    if (moved == nullptr) {
      verdict.broken("%s from %zu to %zu bytes failed", call, object.requested, size);
      return;
    }
    object.bytes = static_cast<char*>(moved);
    object.requested = size;
    object.alignment = alignment;
    if (alignment != 0 && reinterpret_cast<uintptr_t>(moved) % alignment != 0) {
      verdict.broken("rallocx to %zu bytes is not aligned to %zu", size, alignment);
    }
    refill(object, before, zero, call);
  }

  void resize_in_place(Object& object) {
    if (engine().xallocx == nullptr) return;
    const size_t size = pick_size_near(object.requested);
    const size_t extra = random_.below(2) == 0 ? 0 : random_.below(size);
    const bool zero = random_.below(2) == 0;
    const size_t before = object.filled;
    const size_t got = engine().xallocx(object.bytes, size, extra, zero ? probe::kZeroFlag : 0);
    if (got != malloc_usable_size(object.bytes)) {
      verdict.broken("xallocx from %zu to %zu and %zu more: returned %zu, usable %zu", before, size,
                     extra, got, malloc_usable_size(object.bytes));
    }
    if (got < size && got < before) {
      verdict.broken("xallocx to %zu failed and shrank %zu to %zu", size, before, got);
    }
    // The requested size no longer determines the size class: an object may have declined to
    // shrink.
    object.requested = got;
    refill(object, before, zero, "xallocx");
  }

  void refill(Object& object, size_t before, bool zero, const char* call) {
    const size_t now = usable(object, call);
    check(object, std::min(before, object.requested), call);
    if (zero && now > before && !is_zero(object.bytes + before, now - before)) {
      verdict.broken(
          "%s with zeroing from %zu to %zu (asked %zu) usable bytes: not zero, align %zu", call,
          before, now, object.requested, object.alignment);
    }
    object.pattern = random_.next();
    fill(object, now);
  }

  // Swaps with the object of whichever thread was here before.
  void exchange(Object& object) {
    static std::mutex mutex;
    static Object market[16];
    const std::lock_guard hold(mutex);
    std::swap(object, market[random_.below(16)]);
  }

  Random random_;
  const size_t least_;
  const size_t most_;
  Object objects_[kObjects] = {};
};

}  // namespace

int main(int argc, char** argv) {
  const size_t threads = probe::argument(argc, argv, 1, 4);
  const size_t operations = probe::argument(argc, argv, 2, 10000);
  const uint64_t seed = probe::argument(argc, argv, 3, 1);
  const size_t least = probe::argument(argc, argv, 4, 1);
  const size_t most = probe::argument(argc, argv, 5, size_t{8} << 20);
  std::vector<std::thread> running;
  for (size_t i = 0; i < threads; ++i) {
    running.emplace_back([=] { Storm(seed * 1000 + i, least, most).run(operations); });
  }
  for (std::thread& thread : running) thread.join();
  return verdict.status();
}
