// The page heap against a list of what was allocated: blocks, extents and exposed memory, grown in
// place, by moving and by copying, gathered as often as possible, also in children of fork, while
// system calls fail. Each live page identifies its owner.
#include <string.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/rounds.h"
#include "tests/support/saboteur.h"
#include "tests/support/test_heap.h"

namespace rdmalloc {
namespace {

using fake::kMiB;
using fake::kPage;
using fake::TestHeap;

class Model {
 public:
  Model(Heap& tested, uint32_t seed) : heap_(tested), random_(seed), next_(seed << 20) {}

  // False if something is wrong; why() says what.
  bool step() {
    if (live_.size() > 150 || (!live_.empty() && below(10) < 4)) return free_one();
    if (!live_.empty() && below(4) == 0) return resize_one();
    return take_one();
  }

  bool are_intact() {
    for (const Object& object : live_) {
      if (!is_marked(object, object.size)) return false;
    }
    return true;
  }

  bool finish() {
    while (!live_.empty()) {
      if (!free_one()) return false;
    }
    return true;
  }

  const std::string& why() const { return why_; }

 private:
  enum class Kind { kBlock, kExtent, kExposed };
  struct Object {
    unsigned char* base;
    size_t size;
    Kind kind;
    uint32_t id;
  };
  struct Mark {
    uint32_t id;
    uint32_t page;
    uint64_t check;
  };

  size_t below(size_t bound) { return random_() % bound; }
  bool fail(const char* why) {
    why_ = why;
    return false;
  }

  static Mark mark_of(const Object& object, size_t page) {
    return {object.id, static_cast<uint32_t>(page), object.id * 0x9e3779b97f4a7c15U + page};
  }
  static void mark(const Object& object) {
    for (size_t page = 0; page < object.size / kPage; ++page) {
      const Mark one = mark_of(object, page);
      memcpy(object.base + page * kPage + 64, &one, sizeof one);
    }
  }
  bool is_marked(const Object& object, size_t size) {
    for (size_t page = 0; page < size / kPage; ++page) {
      const Mark one = mark_of(object, page);
      if (memcmp(object.base + page * kPage + 64, &one, sizeof one) != 0) {
        return fail("bytes of what is live have changed");
      }
    }
    return true;
  }

  size_t some_size(Kind kind) {
    const size_t pages = below(12) == 0 ? 1 + below(1200) : 1 + below(40);
    return (kind == Kind::kBlock ? pages + 8 : pages) * kPage;
  }

  bool take_one() {
    const auto kind = static_cast<Kind>(below(8) == 0 ? 2 : below(3) == 0 ? 1 : 0);
    const size_t size = some_size(kind);
    const size_t alignment = below(10) == 0 ? kPage << below(11) : kPage;
    bool zero = kind != Kind::kExposed && below(3) == 0;
    const bool wanted = zero;
    void* got = nullptr;
    switch (kind) {
      case Kind::kBlock:
        got = heap_.blocks().allocate(size, alignment, zero);
        break;
      case Kind::kExtent:
        got = heap_.extents().allocate(nullptr, size, alignment, &zero);
        if (got != nullptr && wanted && !zero) return fail("not zeroed");
        break;
      case Kind::kExposed:
        got = heap_.blocks().allocate_exposed(size, alignment);
        break;
    }
    if (got == nullptr) return true;  // a limit, or a failed call
    if (reinterpret_cast<uintptr_t>(got) % alignment != 0) return fail("misaligned");
    const Object object{static_cast<unsigned char*>(got), size, kind, ++next_};
    if (!is_sound(object)) return false;
    if (zero && !fake::reads_zero(got, size)) return fail("zero, and is not");
    mark(object);
    live_.push_back(object);
    return true;
  }

  bool is_sound(const Object& object) {
    const Region* region = heap_.regions().find(object.base);
    if (region == nullptr) return fail("in no region");
    if (reinterpret_cast<uintptr_t>(object.base) + object.size > region->end()) {
      return fail("in more than one region");
    }
    if (heap_.marks().is_retired(reinterpret_cast<uintptr_t>(object.base), object.size))
      return fail("a retired address");
    if (region->exposed != (object.kind == Kind::kExposed)) return fail("in another's region");
    if (region->exposed && !region->locked && !heap_.forked()) return fail("exposed, not pinned");
    if (object.kind == Kind::kExtent) return true;
    return heap_.blocks().size_of(object.base) == object.size || fail("of another size");
  }

  Object take_out() {
    std::swap(live_[below(live_.size())], live_.back());
    const Object object = live_.back();
    live_.pop_back();
    return object;
  }

  bool free_one() {
    const Object object = take_out();
    if (!is_marked(object, object.size)) return false;
    if (object.kind != Kind::kExtent) {
      return heap_.blocks().release(object.base) || fail("a live block was not taken back");
    }
    const size_t first = below(3) == 0 ? object.size / kPage / 2 * kPage : 0;
    return (first == 0 || give(object.base, first)) &&
           give(object.base + first, object.size - first);
  }
  // Refused only for lack of a record.
  bool give(void* address, size_t size) {
    for (int i = 0; i < 20; ++i) {
      if (heap_.extents().release(address, size)) return true;
    }
    return fail("a live extent was not taken back");
  }

  // As realloc does.
  bool resize_one() {
    Object object = take_out();
    if (object.kind == Kind::kExtent || below(3) == 0) {
      live_.push_back(object);
      return true;
    }
    const size_t before = object.size;
    size_t size = below(2) == 0 ? before + (1 + below(300)) * kPage : some_size(object.kind);
    if (below(6) == 0) size = before * 2;
    LargeBlocks& blocks = heap_.blocks();
    if (blocks.resize(object.base, size)) {
      object.size = size;
    } else if (void* moved = blocks.move(object.base, size)) {
      object.base = static_cast<unsigned char*>(moved);
      object.size = size;
    }
    if (!is_marked(object, before < object.size ? before : object.size) || !is_sound(object)) {
      return false;
    }
    mark(object);
    live_.push_back(object);
    return true;
  }

  Heap& heap_;
  std::mt19937 random_;
  uint32_t next_;
  std::vector<Object> live_;
  std::string why_;
};

struct Setting {
  const char* name;
  std::initializer_list<const char*> options;
  bool limits_mappings = false;
};

const Setting kSettings[] = {
    {"gathered always", {"GATHER=always"}},
    {"gathered always, small", {"GATHER=always", "CAP=24M", "MEMORY_CAP=48M", "SPARSE_FROM=3M"}},
    {"few mappings", {"GATHER=always", "MEMORY_CAP=256M"}, true},
    {"populated", {"GATHER=always", "POPULATE=now", "HUGE=thp", "MEMORY_CAP=192M"}},
    {"strict", {"GATHER=always", "STRICT=on", "CAP=64M"}},
    {"as it comes", {"MEMORY_CAP=128M"}},
    {"sealed", {"GATHER=always", "SEAL=on", "MEMORY_CAP=128M"}},
};

void prepare(TestHeap& tested, const Setting& setting) {
  fake::machine().nodes = 2;
  if (setting.limits_mappings) {
    fake::machine().most_mappings = 1500;
    fake::machine().limits_mappings = true;
  }
  tested.boot();
}

// Checks the live memory in a child, and continues there for a while.
bool holds_in_child(TestHeap& tested, Model& model) {
  const test::ChildEnd end = tested.run_child([&] {
    bool good = model.are_intact() && validate(*tested);
    for (int i = 0; good && i < 300; ++i) good = model.step();
    good = good && model.are_intact() && validate(*tested) && model.finish();
    if (!good) (void)!write(2, model.why().data(), model.why().size());
    return good;
  });
  return end.exited_well();
}

}  // namespace

TEST_CASE("the page heap does what a list of pages would, while calls fail") {
  for (const Setting& setting : kSettings) {
    for (const bool sabotage : {false, true}) {
      INFO(setting.name << (sabotage ? ", calls fail" : ""));
      TestHeap tested(setting.options);
      prepare(tested, setting);
      Model model(*tested, 7);
      std::mt19937 random(sabotage ? 1 : 2);
      for (size_t i = 0; i < test::rounds(6000); ++i) {
        fake::set_node(i % 50 == 0 ? 1 : 0);
        if (sabotage && i % 5 == 0) {
          fake::machine().refusals_take = random() % 2 == 0;
          fake::fail(static_cast<fake::Call>(random() % fake::kCalls), 1 + random() % 4,
                     random() % 2 == 0 ? Status::kNoMemory : Status::kRefused);
        }
        if (!model.step()) FAIL(model.why() << " at step " << i);
        if (i % 40 == 0) {
          const std::string why = tested.unsound(sabotage);
          if (!why.empty()) FAIL(why << " at step " << i);
          REQUIRE(model.are_intact());
        }
        if (i % 1000 == 999) {
          fake::fail_nothing();
          REQUIRE(holds_in_child(tested, model));
        }
      }
      fake::set_node(0);
      fake::fail_nothing();
      if (!model.finish()) FAIL(model.why());
      CHECK(heap_counters(*tested).live == 0);
      tested->blocks().freed().drain(true);
      CHECK(heap_counters(*tested).cached == 0);
      CHECK(tested.unsound(sabotage) == "");
    }
  }
}

TEST_CASE("threads find their own bytes in blocks that are freed, gathered and moved by all") {
  for (const bool sabotage : {false, true}) {
    TestHeap tested({"GATHER=always", "MEMORY_CAP=192M", "CAP=96M"});
    fake::machine().nodes = 2;
    tested.boot();
    std::atomic<bool> stop{false};
    std::atomic<size_t> bad{0};
    std::atomic<size_t> steps{0};
    std::string why[4];
    std::vector<std::thread> threads;
    for (uint32_t id = 0; id < 4; ++id) {
      threads.emplace_back([&, id] {
        Model model(*tested, id + 1);
        bool good = true;
        fake::set_node(static_cast<int>(id % 2));
        for (int i = 0; good && !stop; ++i, ++steps) good = model.step();
        good = good && model.are_intact() && model.finish();
        why[id] = model.why();
        bad += good ? 0 : 1;
      });
    }
    bool sound = true;
    {
      std::unique_ptr<fake::Saboteur> saboteur;
      if (sabotage) saboteur = std::make_unique<fake::Saboteur>();
      const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(3);
      while (sound && std::chrono::steady_clock::now() < end) {
        sound = validate(*tested);
        (void)heap_counters(*tested);
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
    }
    stop = true;
    for (std::thread& thread : threads) thread.join();
    for (const std::string& one : why) CHECK(one.empty());
    CHECK(bad == 0);
    CHECK(sound);
    CHECK(steps > 200);
    CHECK(heap_counters(*tested).gathered != 0);
    tested->blocks().freed().drain(true);
    CHECK(heap_counters(*tested).live == 0);
    CHECK(tested.unsound(sabotage) == "");
  }
}

}  // namespace rdmalloc
