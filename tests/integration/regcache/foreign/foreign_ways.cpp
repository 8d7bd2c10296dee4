// The four ways to keep foreign memory registered, each checked against the kernel's books (VmPin)
// and the library's: left pinned or not, with or without limits.
//
//   foreign_ways used|used_limited|left|left_limited [env]
//
// env: RDMALLOC_LEAVE_PINNED=off, RDMALLOC_FOREIGN_BYTES and RDMALLOC_FOREIGN_COUNT set the mode
// and the limits, instead of the domain's options.
#include <algorithm>
#include <atomic>
#include <map>
#include <thread>
#include <vector>

#include "tests/integration/regcache/foreign/foreign.h"

namespace {

constexpr size_t kLength = size_t{64} << 10;
constexpr unsigned kLimit = 4;
constexpr size_t kMany = 64;

probe::Verdict verdict;
unsigned leave_nothing = RDM_DOMAIN_LEAVE_NOTHING_PINNED;
uint64_t base_pins = 0;

// Excludes the heap, which is locked too and registered once.
uint64_t pins_of_foreign() { return probe::pinned_by_kernel() - probe::stats().pinned_bytes; }
uint64_t pins() { return pins_of_foreign() - base_pins; }

// Our books must show this many registrations, of this many buffers' bytes.
bool expect_in_books(const char* when, uint64_t count) {
  if (verdict.count() > 1) _exit(verdict.status());  // every further check would take long
  const rdm_stats books = probe::stats();
  if (books.foreign_regions == count && books.foreign_bytes == count * kLength) return true;
  verdict.broken("%s: %lu registrations of %lu bytes, and not %lu", when, books.foreign_regions,
                 books.foreign_bytes, count);
  return false;
}

// The kernel's books, too. They may be a second late after each change (Linux 6.1).
void expect(const char* when, uint64_t count) {
  if (expect_in_books(when, count) && !probe::comes_to(count * kLength, pins)) {
    verdict.broken("%s: the kernel says %lu bytes are pinned, and not %lu", when, pins(),
                   count * kLength);
  }
}

rdm_mr must_get(const probe::ForeignDevice& device, const char* buffer) {
  rdm_mr mr{};
  const int status = device.get(buffer, kLength, &mr);
  if (status != RDM_OK) verdict.broken("get: %d: %s", status, probe::foreign().last_error());
  return mr;
}

void must_put(const probe::ForeignDevice& device, const rdm_mr& mr) {
  const int status = device.put(mr);
  if (status != RDM_OK) verdict.broken("put: %d: %s", status, probe::foreign().last_error());
}

void expect_out_of_budget(const probe::ForeignDevice& device, const char* buffer, size_t length) {
  rdm_mr mr{};
  const int status = device.get(buffer, length, &mr);
  const char* why = probe::foreign().last_error();
  if (status != RDM_OUT_OF_BUDGET) return verdict.broken("beyond the limit: status %d", status);
  if (*why == '\0') verdict.broken("beyond the limit: no sentence");
  printf("refused: %s\n", why);
}

void expect_right(probe::ForeignDevice& device, const rdm_mr& mr, char* buffer, uint64_t seed) {
  const probe::Content content(seed);
  content.fill(buffer, kLength);
  if (device.send(mr, buffer, kLength, content) != probe::Outcome::kRight) {
    verdict.broken("the peer got other bytes, or none");
  }
}

// Buffers that do not touch each other, so that none becomes part of another's registration.
std::vector<char*> make_buffers(size_t count) {
  char* memory = probe::map_pages(count * 2 * kLength);
  memset(memory, 1, count * 2 * kLength);
  std::vector<char*> buffers;
  for (size_t i = 0; i < count; ++i) buffers.push_back(memory + i * 2 * kLength);
  return buffers;
}

// 1. Not left, no limit: registered for each use, shared while in use.
void check_used(const std::vector<char*>& buffers) {
  probe::ForeignDevice device(kLength, {UINT64_MAX, 0, 0, leave_nothing, 0}, verdict);
  base_pins = pins_of_foreign();
  const uint64_t hits = probe::stats().foreign_hits;
  for (int round = 0; round < 2; ++round) {
    for (size_t i = 0; i < buffers.size(); ++i) {
      const rdm_mr mr = must_get(device, buffers[i]);
      expect_right(device, mr, buffers[i], i);
      expect("in use", 1);
      must_put(device, mr);
      expect("after its use", 0);
    }
  }
  if (probe::stats().foreign_hits != hits) verdict.broken("what was given up was found");
  std::vector<rdm_mr> held;
  for (const char* buffer : buffers) held.push_back(must_get(device, buffer));
  expect("all in use", buffers.size());
  const rdm_mr again = must_get(device, buffers[0]);
  expect("all in use, one of them twice", buffers.size());
  must_put(device, held[0]);
  expect_right(device, again, buffers[0], 77);
  expect("one user less of one", buffers.size());
  must_put(device, again);
  for (size_t i = 1; i < held.size(); ++i) must_put(device, held[i]);
  expect("none in use", 0);
}

// A waiting get receives what another thread returns, and gives up if nobody does.
void check_waiting(const std::vector<char*>& buffers) {
  constexpr unsigned kWaitMs = 3000;
  constexpr uint64_t kHeldMs = 200;
  probe::ForeignDevice device(kLength, {0, kLimit, kWaitMs, leave_nothing, 0}, verdict);
  base_pins = pins_of_foreign();
  std::vector<rdm_mr> held;
  for (unsigned i = 0; i < kLimit; ++i) held.push_back(must_get(device, buffers[i]));
  std::atomic<bool> given_back{false};
  std::thread other([&] {
    usleep(kHeldMs * 1000);
    given_back = true;
    must_put(device, held[0]);
  });
  const uint64_t start = probe::now_ns();
  held[0] = must_get(device, buffers[kLimit]);
  const uint64_t waited_ms = (probe::now_ns() - start) / 1'000'000;
  if (!given_back) verdict.broken("there was room before anything was given back");
  if (waited_ms >= kWaitMs) verdict.broken("waited %lu ms, to the end", waited_ms);
  printf("waited %lu ms for what was held %lu ms\n", waited_ms, kHeldMs);
  other.join();
  expect("after waiting", kLimit);
  for (const rdm_mr& mr : held) must_put(device, mr);
}

void check_waiting_in_vain(const std::vector<char*>& buffers) {
  constexpr unsigned kWaitMs = 300;
  probe::ForeignDevice device(kLength, {0, kLimit, kWaitMs, leave_nothing, 0}, verdict);
  std::vector<rdm_mr> held;
  for (unsigned i = 0; i < kLimit; ++i) held.push_back(must_get(device, buffers[i]));
  const uint64_t start = probe::now_ns();
  expect_out_of_budget(device, buffers[kLimit], kLength);
  const uint64_t waited_ms = (probe::now_ns() - start) / 1'000'000;
  if (waited_ms < kWaitMs || waited_ms > 10 * kWaitMs) {
    verdict.broken("waited %lu ms, and not %u", waited_ms, kWaitMs);
  }
  for (const rdm_mr& mr : held) must_put(device, mr);
}

// 2. Not left, with a limit: everything registered is in use, and the limit is never exceeded.
void check_used_limited(const std::vector<char*>& buffers, const probe::ForeignLimits& limits) {
  probe::ForeignDevice device(kLength, limits, verdict);
  base_pins = pins_of_foreign();
  std::vector<rdm_mr> held;
  for (unsigned i = 0; i < kLimit; ++i) held.push_back(must_get(device, buffers[i]));
  expect("at the limit", kLimit);
  expect_out_of_budget(device, buffers[kLimit], kLength);
  expect("after a refusal", kLimit);
  const rdm_mr shared = must_get(device, buffers[0]);
  must_put(device, shared);
  expect("at the limit, after a second use of the same", kLimit);
  must_put(device, held[1]);
  expect("one given back", kLimit - 1);
  held[1] = must_get(device, buffers[kLimit]);
  expect_right(device, held[1], buffers[kLimit], 99);
  for (const rdm_mr& mr : held) must_put(device, mr);
  expect("all given back", 0);
  if (limits.bytes != 0) {
    expect_out_of_budget(device, buffers[0], (kLimit + 1) * kLength);
    expect("what is longer than all that may be registered", 0);
  }
}

// 3. Left, no limit: registered once.
void check_left(const std::vector<char*>& buffers) {
  probe::ForeignDevice device(kLength, {UINT64_MAX, 0, 0, 0, 0}, verdict);
  base_pins = pins_of_foreign();
  std::vector<uint32_t> keys;
  for (size_t i = 0; i < buffers.size(); ++i) {
    const rdm_mr mr = must_get(device, buffers[i]);
    keys.push_back(mr.lkey);
    must_put(device, mr);
    expect("left", i + 1);
  }
  const rdm_stats first = probe::stats();
  for (size_t i = 0; i < buffers.size(); ++i) {
    const rdm_mr mr = must_get(device, buffers[i]);
    expect_right(device, mr, buffers[i], i);
    if (mr.lkey != keys[i]) verdict.broken("buffer %zu has another key", i);
    must_put(device, mr);
  }
  const rdm_stats second = probe::stats();
  if (second.foreign_hits - first.foreign_hits != buffers.size()) {
    verdict.broken("%lu hits", second.foreign_hits - first.foreign_hits);
  }
  if (second.foreign_misses != first.foreign_misses) verdict.broken("registered again");
  if (second.foreign_evictions != 0) verdict.broken("%lu evictions", second.foreign_evictions);
  expect("left, and used again", buffers.size());
  if (device.close() != RDM_OK) verdict.broken("closing: %s", probe::foreign().last_error());
}

// A model of which buffers are kept. The cache's clock counts misses, so buffers used between the
// same two misses rank equally. The test uses them such that only one is least recently used.
class RecentlyUsed {
 public:
  size_t size() const { return used_.size(); }
  bool has(size_t buffer) const { return used_.count(buffer) != 0; }
  void use(size_t buffer) {
    if (!has(buffer)) {
      if (size() == kLimit) used_.erase(oldest().front());
      ++now_;
    }
    used_[buffer] = now_;
  }
  std::vector<size_t> oldest() const {
    uint64_t time = UINT64_MAX;
    for (const auto& [buffer, used] : used_) time = std::min(time, used);
    std::vector<size_t> found;
    for (const auto& [buffer, used] : used_) {
      if (used == time) found.push_back(buffer);
    }
    return found;
  }

 private:
  std::map<size_t, uint64_t> used_;
  uint64_t now_ = 0;
};

// The buffer is found if the model says so, and what is evicted is what the model evicts.
void use_both(probe::ForeignDevice& device, RecentlyUsed& model, const std::vector<char*>& buffers,
              size_t buffer, uint64_t seed) {
  const bool expected = model.has(buffer);
  model.use(buffer);
  const uint64_t hits = probe::stats().foreign_hits;
  const rdm_mr mr = must_get(device, buffers[buffer]);
  const bool hit = probe::stats().foreign_hits != hits;
  if (hit != expected) {
    verdict.broken("buffer %zu was %s", buffer,
                   hit ? "kept, and another one given up that was used later" : "given up");
  }
  const bool looks_closely = seed % 10 == 0;
  if (looks_closely) expect_right(device, mr, buffers[buffer], seed);
  must_put(device, mr);
  if (looks_closely) {
    expect("now and then", model.size());
  } else {
    (void)expect_in_books("at any time", model.size());
  }
}

// 4. Left, with a limit: the least recently used idle one is evicted, never one in use.
void check_left_limited(const std::vector<char*>& buffers, const probe::ForeignLimits& limits) {
  probe::ForeignDevice device(kLength, limits, verdict);
  base_pins = pins_of_foreign();
  RecentlyUsed model;
  probe::Random random(1);
  for (uint64_t i = 0; i < 1000 && verdict.count() < 4; ++i) {
    const size_t buffer = random.below(kLimit + 3);
    RecentlyUsed then = model;
    then.use(buffer);
    if (model.has(buffer) && then.oldest().size() != 1) continue;
    use_both(device, model, buffers, buffer, i);
    for (auto equals = model.oldest(); equals.size() > 1; equals = model.oldest()) {
      use_both(device, model, buffers, equals[random.below(equals.size())], i);
    }
  }
  if (probe::stats().foreign_evictions < 100) verdict.broken("little was evicted");

  const rdm_mr held = must_get(device, buffers[0]);
  for (size_t i = 1; i < buffers.size(); ++i) must_put(device, must_get(device, buffers[i]));
  expect("with one in use all the time", kLimit);
  const uint64_t hits = probe::stats().foreign_hits;
  must_put(device, must_get(device, buffers[0]));
  if (probe::stats().foreign_hits != hits + 1) verdict.broken("what was in use was given up");
  expect_right(device, held, buffers[0], 5);
  must_put(device, held);
}

}  // namespace

int main(int argc, char** argv) {
  const char* way = argc > 1 ? argv[1] : "";
  const bool is_by_environment = argc > 2 && strcmp(argv[2], "env") == 0;
  if (is_by_environment) leave_nothing = 0;
  (void)probe::foreign();
  const uint64_t before = probe::pinned_by_kernel();
  const std::vector<char*> buffers = make_buffers(kMany);
  const auto limited = [=](unsigned flags, bool by_bytes) {
    if (is_by_environment) return probe::ForeignLimits{0, 0, 0, flags, 0};
    return by_bytes ? probe::ForeignLimits{kLimit * kLength, 0, 0, flags, 0}
                    : probe::ForeignLimits{0, kLimit, 0, flags, 0};
  };
  if (strcmp(way, "used") == 0) check_used(buffers);
  if (strcmp(way, "left") == 0) check_left(buffers);
  for (const bool by_bytes : {false, true}) {
    if (is_by_environment && by_bytes) continue;
    if (strcmp(way, "used_limited") == 0) {
      check_used_limited(buffers, limited(leave_nothing, by_bytes));
    }
    if (strcmp(way, "left_limited") == 0) check_left_limited(buffers, limited(0, by_bytes));
  }
  if (strcmp(way, "used_limited") == 0) {
    check_waiting(buffers);
    check_waiting_in_vain(buffers);
  }
  if (!probe::comes_to(before, probe::pinned_by_kernel)) verdict.broken("pages stay pinned");
  return verdict.status();
}
