// Aligned calls during which the engine allocates for itself: a thread's first call creates its
// cache, a profiled call records its caller. Those inner allocations must not get the outer call's
// size.
//
//   nested THREADS
#include <pthread.h>

#include "tests/integration/probe.h"

namespace {

probe::Verdict verdict;

constexpr size_t kLive = 64;

struct Object {
  unsigned char* bytes = nullptr;
  size_t size = 0;
};

// Each bit of `path` is a different call site, so the profiler sees each path as another caller.
[[gnu::noinline]] void* allocate_from(unsigned path, unsigned depth, size_t size) {
  void* out = nullptr;
  if (depth == 0) {
    if (posix_memalign(&out, 16, size) != 0) out = nullptr;
  } else if ((path & 1) != 0) {
    out = allocate_from(path >> 1, depth - 1, size);
    asm volatile("" : "+r"(out));  // no tail call: the profiler needs this frame
  } else {
    out = allocate_from(path >> 1, depth - 1, size);
    asm volatile("nop" : "+r"(out));
  }
  return out;
}

void check(const Object& object) {
  for (size_t i = 0; i < object.size; ++i) {
    if (object.bytes[i] == static_cast<unsigned char>(object.size)) continue;
    verdict.broken("%zu bytes at %p were overwritten at %zu", object.size,
                   static_cast<void*>(object.bytes), i);
    return;
  }
}

void* work(void* seed) {
  // Nothing here may allocate before the first aligned call.
  Object objects[kLive];
  const auto start = static_cast<unsigned>(reinterpret_cast<uintptr_t>(seed));
  for (unsigned i = 0; i < 4096; ++i) {
    Object& object = objects[i % kLive];
    if (object.bytes != nullptr) {
      check(object);
      free(object.bytes);
    }
    // Just below a power of two, where the engine's own tables lie.
    object.size = (size_t{64} << (10 + (start + i) % 3)) - 5000 - i;
    object.bytes = static_cast<unsigned char*>(allocate_from(start * 77 + i, 13, object.size));
    if (object.bytes == nullptr) {
      verdict.broken("posix_memalign failed");
      return nullptr;
    }
    memset(object.bytes, static_cast<int>(object.size & 0xff), object.size);
  }
  for (Object& object : objects) {
    check(object);
    free(object.bytes);
  }
  return nullptr;
}

}  // namespace

int main(int argc, char** argv) {
  const size_t threads = probe::argument(argc, argv, 1, 8);
  for (size_t i = 0; i < threads; ++i) {
    pthread_t thread{};
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_create(&thread, &attributes, work, reinterpret_cast<void*>(i));
    pthread_join(thread, nullptr);
  }
  return verdict.status();
}
