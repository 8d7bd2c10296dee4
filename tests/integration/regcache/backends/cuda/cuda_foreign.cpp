// Foreign memory with a CUDA domain, on the fake driver, which registers memory once and knows
// nothing of unmapping.
//
//   cuda_foreign kept|larger|wider|limits|leave_nothing|named|all
//
// Without the library `larger` is the control: the driver refuses a cache that releases nothing
// when a larger buffer appears at the same address.
#include <algorithm>
#include <map>
#include <vector>

#include "tests/integration/regcache/backends/cuda/cuda_checks.h"

namespace {

using namespace probe;

void check_kept() {
  rdm_domain* domain = open_domain(verdict);
  char* memory = map_pages(kMiB);
  uint64_t before = fake()->registrations;
  for (int i = 0; i < 100; ++i) {
    rdm_mr mr{};
    if (domains().get(domain, memory + i * 64, kLarge, &mr) != RDM_OK) {
      verdict.broken("rdm_get: %s", domains().last_error());
      break;
    }
    if (mr.handle != mr.base) verdict.broken("the handle is not where the device sees it");
    expect_direct(memory + i * 64, kLarge, static_cast<uint64_t>(i), "foreign memory");
    if (domains().put(domain, &mr) != RDM_OK) verdict.broken("rdm_put failed");
  }
  before = fake()->registrations - before;
  if (before > 4) verdict.broken("%lu registrations for the same memory", before);
  munmap(memory, kMiB);
  // Unmapped memory is released, and an address where nothing is mapped is refused.
  rdm_mr mr{};
  expect_status(RDM_SYSTEM, domains().get(domain, memory, kLarge, &mr), "not mapped",
                domains().last_error());
  close_domain(domain, verdict);
  expect_nothing_left();
}

// The control's cache: finds registrations by address and size, and releases nothing.
struct NaiveCache {
  std::map<std::pair<char*, size_t>, bool> registered;
  int get(char* memory, size_t length) {
    if (registered.count({memory, length}) != 0) return kCudaSuccess;
    const int status = cuda().host_register(memory, length, 1);
    if (status == kCudaSuccess) registered[{memory, length}] = true;
    return status;
  }
};

// Through the library or, without it, through the naive cache.
void use_either(rdm_domain* domain, char* memory, size_t length, uint64_t seed, const char* what) {
  static NaiveCache naive;
  if (domain != nullptr) return use(domain, memory, length, seed, what);
  const int status = naive.get(memory, length);
  if (status != kCudaSuccess) verdict.broken("%s: CUDA error %d", what, status);
}

// The seed's case: a buffer is freed, and a larger one appears at the same address.
void check_larger() {
  rdm_domain* domain = domains().open != nullptr ? open_domain(verdict) : nullptr;
  char* place = map_pages(kLarge);
  munmap(place, kLarge);
  for (uint64_t i = 0; i < 200; ++i) {
    use_either(domain, map_pages(kSmall, place), kSmall, i, "32 KiB");
    munmap(place, kSmall);
    use_either(domain, map_pages(kLarge, place), kLarge, i + 7, "64 KiB at the same address");
    munmap(place, kLarge);
  }
  close_domain(domain, verdict);
  if (domain != nullptr) expect_nothing_left();
}

// The same without an unmapping that could be noticed, while the smaller one is in use.
void check_wider() {
  const size_t half = std::max(kSmall, probe::kPage);
  const size_t whole = 2 * half;
  rdm_domain* domain = open_domain(verdict);
  char* memory = map_pages(whole);
  use(domain, memory, half, 1, "a half");
  use(domain, memory, whole, 2, "the whole at the same address");
  if (fake()->registered_bytes < whole) verdict.broken("not all is registered");
  char* other = map_pages(whole);
  rdm_mr held{};
  rdm_mr wide{};
  if (domains().get(domain, other, half, &held) != RDM_OK) verdict.broken("rdm_get failed");
  const int status = domains().get(domain, other, whole, &wide);
  if (status == RDM_OK) verdict.broken("memory in use was given up");
  if (domains().last_error()[0] == '\0') verdict.broken("nothing is said of memory in use");
  if (!covers(other, half)) verdict.broken("memory in use is not registered any more");
  if (domains().put(domain, &held) != RDM_OK) verdict.broken("rdm_put failed");
  use(domain, other, whole, 3, "the whole when its half is idle");
  close_domain(domain, verdict);
  expect_nothing_left();
}

void check_limits() {
  if (malloc(16 * kMiB) == nullptr) refused("out of memory");
  rdm_domain* domain = nullptr;
  fake()->most_bytes = kMiB;
  expect_status(RDM_OUT_OF_BUDGET, open_domain({}, &domain, why, sizeof why), "CUDA driver", why);
  expect_nothing_left();
  fake()->most_bytes = UINT64_MAX;
  domain = open_domain(verdict, {.foreign_bytes = 4 * kLarge, .foreign_count = 4});
  std::vector<char*> buffers;
  for (int i = 0; i < 64; ++i) buffers.push_back(map_pages(2 * kLarge));
  for (uint64_t round = 0; round < 4; ++round) {
    for (char* buffer : buffers) {
      use(domain, buffer, kLarge, round, "a buffer of many");
      size_t registered = 0;
      for (const char* each : buffers) registered += covers(each, 1) ? 1 : 0;
      if (registered == 0 || registered > 4) verdict.broken("%zu are registered", registered);
    }
  }
  close_domain(domain, verdict);
  // At the driver's own limit idle registrations make room too; otherwise the caller is told.
  domain = open_domain(verdict);
  for (int i = 0; i < 4; ++i) use(domain, buffers[i], kLarge, 1, "the first buffers");
  fake()->most_registrations = fake()->registered.load();
  use(domain, buffers[4], kLarge, 2, "one more than the driver allows");
  std::vector<rdm_mr> held(buffers.size());
  size_t got = 0;
  while (got < held.size() && domains().get(domain, buffers[got], kLarge, &held[got]) == RDM_OK) {
    ++got;
  }
  if (got == 0 || got == held.size()) verdict.broken("%zu fit the driver's limit", got);
  if (domains().last_error()[0] == '\0') verdict.broken("nothing is said of the driver's limit");
  for (size_t i = 0; i < got; ++i) (void)domains().put(domain, &held[i]);
  close_domain(domain, verdict);
  fake()->most_registrations = 0;
  expect_status(RDM_OUT_OF_BUDGET, open_domain({}, &domain, why, sizeof why), "CUDA driver", why);
  expect_nothing_left();
}

void check_leave_nothing() {
  rdm_domain* domain = open_domain(verdict, {.flags = RDM_DOMAIN_LEAVE_NOTHING_PINNED});
  char* memory = map_pages(kLarge);
  for (uint64_t i = 0; i < 10; ++i) {
    use(domain, memory, kLarge, i, "foreign memory");
    if (covers(memory, 1)) verdict.broken("foreign memory stays registered");
  }
  close_domain(domain, verdict);
  expect_nothing_left();
}

// A copy of this memory goes through a buffer of the driver's.
void expect_staged(void* memory, size_t length, const char* what) {
  const uint64_t direct = fake()->direct_copies;
  copy_there_and_back(memory, length, 1, what, verdict);
  if (fake()->direct_copies != direct) verdict.broken("%s: a copy was direct", what);
}

// Named buffers that share a page: CUDA registers it once.
void check_shared_page(rdm_domain* domain, char* memory) {
  rdm_mr first{};
  rdm_mr second{};
  expect_status(RDM_OK, domains().get(domain, memory, kMiB + 100, &first), "",
                domains().last_error());
  expect_status(RDM_BUSY, domains().get(domain, memory + kMiB + 200, kMiB, &second), "in use",
                domains().last_error());
  (void)domains().put(domain, &first);
  expect_status(RDM_OK, domains().get(domain, memory + kMiB + 200, kMiB, &second), "",
                domains().last_error());
  (void)domains().put(domain, &second);
}

// `flags` 0 is the control: the whole heap is registered, and no copy of it is staged.
void check_named(unsigned flags) {
  auto* const buffer = static_cast<char*>(malloc(kMiB));
  auto* const other = static_cast<char*>(malloc(kMiB));
  rdm_domain* domain = open_domain(verdict, {.flags = flags});
  auto* const later = static_cast<char*>(malloc(64 * kMiB));
  for (uint64_t i = 0; i < 10; ++i) {
    use(domain, buffer, kMiB, i, "a named buffer");
    expect_staged(buffer, kMiB, "a buffer that was put");
    expect_staged(other, kMiB, "a buffer that nobody named");
    expect_staged(later, kMiB, "a buffer of a later region");
  }
  rdm_mr mr{};
  expect_status(RDM_NOT_REGISTERED, domains().lookup(domain, other, kMiB, &mr), "rdm_get",
                domains().last_error());
  if (flags != 0) check_shared_page(domain, later);
  close_domain(domain, verdict);
  expect_nothing_left();
}

}  // namespace

int main(int argc, char** argv) {
  const char* what = argc > 1 ? argv[1] : "";
  (void)use_device();
  if (fake() == nullptr) skip("the driver is not the made-up one");
  if (strcmp(what, "kept") == 0) check_kept();
  if (strcmp(what, "larger") == 0) check_larger();
  if (strcmp(what, "wider") == 0) check_wider();
  if (strcmp(what, "limits") == 0) check_limits();
  if (strcmp(what, "leave_nothing") == 0) check_leave_nothing();
  if (strcmp(what, "named") == 0) check_named(RDM_DOMAIN_NAMED_ONLY);
  if (strcmp(what, "all") == 0) check_named(0);
  return verdict.status();
}
