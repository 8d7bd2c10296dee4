// Acquiring memory that a device may use: through malloc with an open domain, and with the bare
// system calls. Also counts the registrations of a heap.
#include <stdlib.h>
#include <string.h>

#include <atomic>
#include <vector>

#include "bench/workloads/library.h"
#include "bench/workloads/meter.h"
#include "bench/workloads/pinned.h"
#include "bench/workloads/ring.h"

namespace rdmalloc::bench {
namespace {

// Every byte has a key, however many memory regions that takes.
bool has_keys(const rdm_domain* domain, char* next, const char* end) {
  while (next < end) {
    rdm_mr mr{};
    if (library().lookup(domain, next, 1, &mr) != RDM_OK) return false;
    next = static_cast<char*>(mr.base) + mr.length;
  }
  return true;
}

std::atomic<size_t> registered{0};

int limits(void*, rdm_backend_limits* out) {
  out->abilities = RDM_BACKEND_IN_MALLOC;
  return RDM_OK;
}

int count_one(void*, const rdm_backend_request*, rdm_backend_key* out, char*, size_t) {
  *out = {static_cast<uint32_t>(++registered), 0, nullptr};
  return RDM_OK;
}

int deregister_memory(void*, const rdm_backend_key*) { return RDM_OK; }

constexpr rdm_backend kCounting = {sizeof kCounting, "counting",        limits,
                                   count_one,        deregister_memory, nullptr};

void grow_small(size_t count) {
  Random random(5);
  std::vector<void*> buffers(count);
  for (void*& buffer : buffers) keep(buffer = malloc(size_t{16} << random.below(7)));
}

// Grows like a vector under push_back; two of them, so that neither can always grow in place.
void grow_by_doubling(size_t largest) {
  constexpr size_t kFirst = size_t{1} << 16;
  void* vectors[2] = {};
  for (size_t size = kFirst; size <= largest; size *= 2) {
    for (void*& vector : vectors) keep(vector = realloc(vector, size));
  }
}

}  // namespace

// On a fresh heap with the domain open, because a program opens it once.
void run_register(const Arguments& arguments, Meter& meter) {
  keep(malloc(1));
  const rdm_domain* domain = library().open_io_uring(-1);
  const rdm_stats before = library().stats();
  meter.start();
  auto* block = static_cast<char*>(malloc(arguments.bytes));
  if (block == nullptr) fail("malloc", "no memory");
  const bool found = has_keys(domain, block, block + arguments.bytes);
  meter.stop();
  if (!found) fail("rdm_lookup", "not all of the block is registered");
  const rdm_stats after = library().stats();
  report("pinned", after.pinned_bytes - before.pinned_bytes);
  report("huge", after.huge_bytes - before.huge_bytes);
  report("registered", after.registered_bytes - before.registered_bytes);
  report("registration_ns", after.registration_ns - before.registration_ns);
}

void run_register_bare(const Arguments& arguments, Meter& meter) {
  Ring ring;
  ring.make_table(1);
  meter.start();
  ring.add(0, map_pinned(arguments.bytes, arguments.kind), arguments.bytes);
  meter.stop();
}

// How many memory regions a domain has after that many buffers, or bytes.
void run_count(const Arguments& arguments, Meter& meter) {
  library().open(kCounting);
  meter.start();
  if (strcmp(arguments.kind, "buffers") == 0) {
    grow_small(arguments.bytes);
  } else {
    grow_by_doubling(arguments.bytes);
  }
  meter.stop();
  report("memory_regions", registered);
  const rdm_stats stats = library().stats();
  report("held", stats.held_bytes);
  report("pinned", stats.pinned_bytes);
}

}  // namespace rdmalloc::bench
