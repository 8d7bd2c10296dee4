// Domains are opened and closed while threads grow the heap and look up; a backend fails at random.
#include <atomic>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "regcache/domain/registry.h"
#include "tests/support/catch.h"
#include "tests/support/fake_backend.h"
#include "tests/support/test_heap.h"
#include "tests/support/test_heap_source.h"

namespace rdmalloc {
namespace {

using fake::kMiB;
using fake::kPage;
using fake::TestHeap;

constexpr int kThreads = 4;
constexpr int kRounds = 2000;

// Allocates, frees, and looks up what it holds: the steady domain knows all of it, each always
// under the key first found.
void churn(TestHeap& tested, Domain* steady, const fake::Backend& backend, unsigned seed,
           std::atomic<int>* wrong) {
  struct Object {
    void* address;
    size_t size;
    uint32_t key;
  };
  std::mt19937 random(seed);
  std::vector<Object> held;
  for (int round = 0; round < kRounds; ++round) {
    if (held.size() < 40 && random() % 2 == 0) {
      const size_t size = kPage * (1 + random() % (random() % 16 == 0 ? 4096 : 64));
      void* address = tested.take(size);
      rdm_mr mr{};
      if (steady->lookup(address, size, &mr) != RDM_OK || !backend.covers(mr, address, size)) {
        ++*wrong;
      }
      held.push_back({address, size, mr.lkey});
    } else if (!held.empty()) {
      const size_t which = random() % held.size();
      const Object object = held[which];
      rdm_mr mr{};
      if (steady->lookup(object.address, object.size, &mr) != RDM_OK || mr.lkey != object.key) {
        ++*wrong;
      }
      held[which] = held.back();
      held.pop_back();
      if (!tested.give(object.address, object.size)) ++*wrong;
    }
  }
  for (const Object& object : held) (void)tested.give(object.address, object.size);
}

}  // namespace

TEST_CASE("keys stay right while the heap grows and other domains open, fail and close") {
  TestHeap tested;
  tested.boot();
  fake::stop_pretending();
  struct Counter : RegionObserver {
    void on_acquire(const Region& region) noexcept override { acquired += region.length; }
    void on_fork_child() noexcept override {}
    std::atomic<size_t> acquired{0};  // bytes
  } counter;
  REQUIRE(ok(tested->publisher().attach(&counter)));
  REQUIRE(tested.take(kPage) != nullptr);
  fake::Backend backend;
  backend.limits.abilities = RDM_BACKEND_ONCE;  // a part of a large region has a key of its own
  fake::Backend failing;
  fake::TestHeapSource source(*tested);
  auto registry = std::make_unique<Registry>(source);
  const auto open = [&](fake::Backend& at, Domain** out) {
    const rdm_backend ops = at.ops();
    return registry->open(&ops, &at, nullptr, out);
  };
  Domain* steady = nullptr;
  REQUIRE(open(backend, &steady) == RDM_OK);

  std::atomic<int> wrong{0};
  std::atomic<bool> done{false};
  std::thread visitor([&] {
    std::mt19937 random(99);
    std::vector<void*> held;
    while (!done) {
      failing.limits.abilities = random() % 2 == 0 ? unsigned{RDM_BACKEND_IN_MALLOC} : 0U;
      failing.limits.max_length = random() % 2 == 0 ? 4 * kMiB : 0;
      failing.fail_only = failing.calls() + random() % 40;
      Domain* domain = nullptr;
      if (open(failing, &domain) != RDM_OK) {
        wrong += failing.registered().empty() ? 0 : 1;
        continue;
      }
      // Memory that nobody holds may lose its pages at any moment.
      if (held.size() < 200) held.push_back(tested.take(kPage * (1 + random() % 64)));
      for (int i = 0; i < 50; ++i) {
        void* const address = held[random() % held.size()];
        rdm_mr mr{};
        if (domain->lookup(address, kPage, &mr) == RDM_OK && !failing.covers(mr, address, kPage)) {
          ++wrong;
        }
      }
      wrong += registry->close(domain) == RDM_OK && failing.registered().empty() ? 0 : 1;
    }
  });
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back(
        [&, i] { churn(tested, steady, backend, static_cast<unsigned>(i), &wrong); });
  }
  for (std::thread& thread : threads) thread.join();
  done = true;
  visitor.join();

  registry->stop();
  CHECK(wrong == 0);
  CHECK(backend.violations().empty());
  CHECK(failing.violations().empty());
  CHECK(registry->domains().validate());
  CHECK(tested.unsound() == "");
  // Each byte at most once, into however many pieces a region was split when pages were moved away.
  CHECK(backend.ever_registered_bytes() <= counter.acquired);
  CHECK(registry->close(steady) == RDM_OK);
  CHECK(backend.registered().empty());
}

}  // namespace rdmalloc
