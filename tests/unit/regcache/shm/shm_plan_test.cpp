// The plan of shared memory between processes: the RFC's table ("Fragmented sm Allocations"), and
// what each layout promises about the placement of its parts.
#include "regcache/shm/plan.h"

#include <string.h>

#include <algorithm>
#include <string>
#include <vector>

#include "allocator/os/page_size.h"
#include "tests/support/catch.h"
#include "tests/support/rounds.h"

namespace rdmalloc::shm {
namespace {

constexpr unsigned kLayouts[] = {RDM_SHM_AGGREGATED, RDM_SHM_MPSC, RDM_SHM_CACHELINE, RDM_SHM_PAGE};

rdm_shm_plan_options options_for(unsigned procs, unsigned layout, unsigned flags = 0) {
  rdm_shm_plan_options options = {};
  options.size = sizeof options;
  options.procs = procs;
  options.layout = layout;
  options.flags = flags;
  return options;
}

rdm_shm_plan rows_of(const rdm_shm_plan_options& options) {
  rdm_shm_plan rows = {};
  rows.size = sizeof rows;
  REQUIRE(rdm_shm_plan_get(&options, &rows) == RDM_OK);
  return rows;
}

Plan plan_of(const rdm_shm_plan_options& options) {
  Shape shape;
  Plan plan;
  REQUIRE(read_options(&options, &shape, nullptr, 0) == RDM_OK);
  REQUIRE(Plan::make(shape, &plan, nullptr, 0) == RDM_OK);
  return plan;
}

// As the RFC prints bytes: in units of 10^6, rounded.
uint64_t printed(uint64_t bytes) { return (bytes + 500'000) / 1'000'000; }

bool within_a_hundredth(uint64_t bytes, uint64_t millions) {
  const auto expected = static_cast<double>(millions) * 1e6;
  return std::abs(static_cast<double>(bytes) - expected) <= expected / 100;
}

uint64_t sum_of(const rdm_shm_plan& rows) {
  return rows.wrappers + rows.queues + rows.heads + rows.fifos + rows.eager_lists + rows.max_lists +
         rows.inboxes + rows.boxes + rows.control + rows.padding;
}

// The RFC's smaller example.
rdm_shm_plan_options small_example() {
  rdm_shm_plan_options options = options_for(1024, RDM_SHM_AGGREGATED, RDM_SHM_EAGER_WITH_HEADER);
  options.page_size = 4096;
  options.eager_limit = 256;
  options.queue_entries = 16;
  options.chunk_size = 8192;
  return options;
}

}  // namespace

TEST_CASE("the RFC's table of separate allocations comes out") {
  struct Column {
    unsigned layout;
    size_t page_size;
    uint64_t wrappers, queues, heads, eager, other, total;
  };
  const Column columns[] = {
      {RDM_SHM_PAGE, 8192, 8682, 9822, 8632, 9171, 370, 36677},
      {RDM_SHM_PAGE, 4096, 4391, 5531, 4341, 9032, 362, 23658},
      {RDM_SHM_CACHELINE, 4096, 235, 1374, 184, 8898, 355, 11046},
  };
  for (const Column& column : columns) {
    rdm_shm_plan_options options = options_for(1024, column.layout);
    options.page_size = column.page_size;
    const rdm_shm_plan rows = rows_of(options);
    CHECK(printed(rows.wrappers) == column.wrappers);
    CHECK(printed(rows.queues) == column.queues);
    CHECK(printed(rows.heads) == column.heads);
    CHECK(printed(rows.eager_lists) == column.eager);
    CHECK(within_a_hundredth(rows.eager_lists, column.eager));
    // The RFC does not explain "other"; our FIFOs and max fragments add up to the same.
    CHECK(within_a_hundredth(rows.fifos + rows.max_lists, column.other));
    CHECK(within_a_hundredth(rows.bytes, column.total));
  }
}

TEST_CASE("the RFC's table of aggregated allocations comes out") {
  rdm_shm_plan_options options = options_for(1024, RDM_SHM_AGGREGATED);
  options.page_size = 4096;
  const rdm_shm_plan rows = rows_of(options);
  CHECK(printed(rows.fifos + rows.wrappers + rows.queues + rows.heads) == 1250);
  CHECK(within_a_hundredth(rows.eager_lists, 8899));
  CHECK(printed(rows.max_lists) == 270);
  CHECK(within_a_hundredth(rows.bytes, 10418));

  const rdm_shm_plan small = rows_of(small_example());
  CHECK(printed(small.fifos + small.wrappers + small.queues + small.heads) == 311);
  CHECK(printed(small.eager_lists) == 544);
  CHECK(printed(small.max_lists) == 68);
  CHECK(within_a_hundredth(small.bytes, 924));
}

TEST_CASE("each circular buffer's cell is payload and alignment for each ordered pair") {
  for (const unsigned procs : {2U, 3U, 64U, 1024U, 4096U}) {
    const uint64_t pairs = uint64_t{procs} * (procs - 1);
    for (const size_t page_size : {size_t{4096}, size_t{8192}, size_t{65536}}) {
      rdm_shm_plan_options options = options_for(procs, RDM_SHM_PAGE);
      options.page_size = page_size;
      const rdm_shm_plan rows = rows_of(options);
      CHECK(rows.wrappers == pairs * (64 + 32 + page_size));
      CHECK(rows.queues == pairs * (128 * 8 + 128 + 32 + page_size));
      CHECK(rows.heads == pairs * (16 + 32 + page_size));
    }
  }
}

TEST_CASE("the rows add up to the segment's length") {
  for (const unsigned layout : kLayouts) {
    for (const unsigned flags : {0U, unsigned{RDM_SHM_MULTITHREADED}}) {
      for (const unsigned procs : {1U, 2U, 7U, 64U, 1024U, 4096U}) {
        const rdm_shm_plan rows = rows_of(options_for(procs, layout, flags));
        CHECK(rows.bytes == sum_of(rows));
      }
    }
  }
}

TEST_CASE("mpsc takes memory by the process, and below a thousandth of page at 1024 processes") {
  const uint64_t page = rows_of(options_for(1024, RDM_SHM_PAGE)).bytes;
  CHECK(rows_of(options_for(1024, RDM_SHM_MPSC)).bytes * 1000 < page);
  // Once there are more peers than boxes, each process adds the same amount.
  const auto bytes = [](unsigned procs) { return rows_of(options_for(procs, RDM_SHM_MPSC)).bytes; };
  const uint64_t one = bytes(101) - bytes(100);
  CHECK(bytes(1024) - bytes(100) == 924 * one);
  CHECK(bytes(65536) - bytes(100) == 65436 * one);
}

TEST_CASE(
    "plans are made for thousands of processes, and those that no file can hold are refused") {
  for (const unsigned layout : kLayouts) {
    CHECK(rows_of(options_for(4096, layout)).bytes > 0);
    CHECK(rows_of(options_for(65536, layout)).bytes > 0);
  }
  char why[200] = "";
  rdm_shm_plan_options options = options_for(65536, RDM_SHM_PAGE);
  options.page_size = size_t{1} << 30;
  options.error = why;
  options.error_size = sizeof why;
  rdm_shm_plan rows = {};
  rows.size = sizeof rows;
  CHECK(rdm_shm_plan_get(&options, &rows) == RDM_INVALID);
  CHECK(std::string(why).find("longer than a file can be") != std::string::npos);
  CHECK(rows.bytes == 0);
}

namespace {

// Which process uses a component, or kBoth: read by both and rarely written.
constexpr uint32_t kBoth = UINT32_MAX;

struct Placed {
  const char* kind;
  uint32_t user;  // kBoth, or the only process that writes it
  uint64_t begin;
  uint64_t end;
};

class Map {
 public:
  explicit Map(const Plan& plan) : plan_(plan) {
    add("segment header", kBoth, 0, kSegmentHeaderBytes);
    for (uint32_t rank = 0; rank < plan.shape().procs; ++rank) add_process(rank);
    if (plan.shape().layout != RDM_SHM_MPSC) add_pairs();
    std::sort(places_.begin(), places_.end(),
              [](const Placed& a, const Placed& b) { return a.begin < b.begin; });
  }
  const std::vector<Placed>& places() const { return places_; }
  uint64_t line(uint64_t offset) const { return offset / plan_.shape().cacheline; }

  bool overlaps() const {
    for (size_t i = 1; i < places_.size(); ++i) {
      if (places_[i].begin < places_[i - 1].end) return true;
    }
    return false;
  }

  // Whether some cache line has components that, according to `apart`, must not share one.
  template <class Apart>
  bool shares_line(const Apart& apart) const {
    for (size_t i = 0; i < places_.size(); ++i) {
      for (size_t j = i + 1; j < places_.size(); ++j) {
        if (line(places_[j].begin) != line(places_[i].end - 1)) break;
        if (apart(places_[i], places_[j])) return true;
      }
    }
    return false;
  }

 private:
  void add(const char* kind, uint32_t user, uint64_t begin, uint64_t bytes) {
    places_.push_back({kind, user, begin, begin + bytes});
  }
  // What is added from here on lies in that process's part.
  void add_in(uint32_t owner, const char* kind, uint32_t user, uint64_t begin, uint64_t bytes) {
    const Range part = plan_.part(owner);
    if (begin < part.offset || begin + bytes > part.end()) FAIL(kind << " is outside its part");
    add(kind, user, begin, bytes);
  }

  // The same, for components that begin on a line and share none.
  void add_line(uint32_t owner, const char* kind, uint64_t begin, uint64_t bytes) {
    const uint64_t cacheline = plan_.shape().cacheline;
    if (begin % cacheline != 0) FAIL(kind << " does not begin on a line");
    add_in(owner, kind, kBoth, begin, (bytes + cacheline - 1) / cacheline * cacheline);
  }

  void add_process(uint32_t rank) {
    const Shape& shape = plan_.shape();
    add_line(rank, "slot", plan_.slot(rank), kSlotBytes);
    add_line(rank, "eager list", plan_.at(rank, plan_.eager().list()), kListHeadBytes);
    add_line(rank, "max list", plan_.at(rank, plan_.large().list()), kListHeadBytes);
    for (uint32_t i = 0; i < plan_.eager().count(); ++i) {
      add_line(rank, "eager fragment", plan_.at(rank, plan_.eager().fragment(i)),
               kFragmentHeaderBytes + plan_.eager().bytes());
    }
    for (uint32_t i = 0; i < plan_.large().count(); ++i) {
      add_line(rank, "max fragment", plan_.at(rank, plan_.large().fragment(i)),
               kFragmentHeaderBytes + plan_.large().bytes());
    }
    if (shape.layout != RDM_SHM_MPSC) return;
    add_line(rank, "inbox", plan_.at(rank, plan_.boxes().inbox()), 2 * shape.cacheline);
    for (uint32_t i = 0; i < plan_.boxes().count(); ++i) {
      add_line(rank, "box", plan_.at(rank, plan_.boxes().box(i)), shape.cacheline + shape.box_size);
    }
  }

  // Queues and tails lie in the receiver's part, heads in the sender's.
  void add_pairs() {
    const uint32_t procs = plan_.shape().procs;
    const uint64_t queue_bytes = plan_.shape().queue_entries * kEntryBytes;
    for (uint32_t from = 0; from < procs; ++from) {
      for (uint32_t to = 0; to < procs; ++to) {
        if (from == to) continue;
        add_in(to, "fifo", kBoth, plan_.pair(from, to).fifo, kFifoBytes);
        add_in(to, "wrapper", kBoth, plan_.pair(from, to).wrapper, kWrapperBytes);
        add_in(to, "queue", kBoth, plan_.pair(from, to).queue, queue_bytes);
        add_in(to, "tail", to, plan_.pair(from, to).tail, kTailBytes);
        add_in(from, "head", from, plan_.pair(from, to).head, kHeadBytes);
      }
    }
  }

  const Plan& plan_;
  std::vector<Placed> places_;
};

bool is(const Placed& place, const char* kind) { return strcmp(place.kind, kind) == 0; }
bool is_position(const Placed& place) { return is(place, "head") || is(place, "tail"); }

// What every layout promises, for any options.
void check_promises(const Plan& plan) {
  const Shape& shape = plan.shape();
  const Map map(plan);
  INFO("procs " << shape.procs << ", layout " << shape.layout << ", flags " << shape.flags
                << ", cacheline " << shape.cacheline << ", page " << shape.page_size);
  CHECK(!map.overlaps());
  CHECK(!map.shares_line([](const Placed& a, const Placed& b) {
    return a.user != b.user && (is_position(a) || is_position(b));
  }));
  CHECK(!map.shares_line([](const Placed& a, const Placed& b) {
    return (is(a, "wrapper") && is_position(b)) || (is(b, "wrapper") && is_position(a));
  }));
  if ((shape.flags & RDM_SHM_MULTITHREADED) != 0 || shape.layout != RDM_SHM_AGGREGATED) {
    CHECK(!map.shares_line(
        [](const Placed& a, const Placed& b) { return is_position(a) || is_position(b); }));
  }
  CHECK(plan.part(shape.procs - 1).end() == plan.bytes());
  CHECK(plan.bytes() % shape.page_size == 0);
  // No more pages than their contents need.
  const uint64_t end = map.places().back().end;
  const uint64_t alignment =
      shape.layout == RDM_SHM_PAGE ? shape.page_size + shape.page_size : shape.page_size;
  CHECK(plan.bytes() - end < alignment + 2 * shape.cacheline);
}

// Every component of a page or cacheline layout is a separate allocation.
void check_alignment(const Plan& plan) {
  const Shape& shape = plan.shape();
  if (shape.layout != RDM_SHM_PAGE && shape.layout != RDM_SHM_CACHELINE) return;
  const uint64_t unit = shape.layout == RDM_SHM_PAGE ? shape.page_size : shape.cacheline;
  for (uint32_t from = 0; from < shape.procs; ++from) {
    for (uint32_t to = 0; to < shape.procs; ++to) {
      if (from == to) continue;
      CHECK(plan.pair(from, to).wrapper % unit == 0);
      CHECK(plan.pair(from, to).queue % unit == 0);
      CHECK(plan.pair(from, to).head % unit == 0);
    }
  }
}

}  // namespace

TEST_CASE("nothing overlaps or falsely shares a line in any layout, for 1 to 64 processes") {
  for (const unsigned layout : kLayouts) {
    for (const unsigned flags : {0U, unsigned{RDM_SHM_MULTITHREADED}}) {
      for (unsigned procs = 1; procs <= 64; procs = procs < 20 ? procs + 1 : procs + 11) {
        const Plan plan = plan_of(options_for(procs, layout, flags));
        check_promises(plan);
        if (procs <= 8) check_alignment(plan);
      }
    }
  }
}

TEST_CASE("nothing overlaps or falsely shares a line, whatever the sizes are") {
  uint64_t seed = 20090130;
  const auto below = [&seed](uint64_t limit) {
    seed = seed * 6364136223846793005U + 1442695040888963407U;
    return (seed >> 33) % limit;
  };
  for (int round = 0; round < 300; ++round) {
    rdm_shm_plan_options options = options_for(static_cast<unsigned>(1 + below(12)),
                                               kLayouts[below(4)], static_cast<unsigned>(below(4)));
    options.queue_entries = 2U << below(8);
    options.page_size = size_t{4096} << below(5);
    options.cacheline = size_t{64} << below(5);
    options.eager_limit = 65 + below(10'000);
    options.chunk_size = 1 + below(70'000);
    options.eager_fragments = static_cast<unsigned>(below(200));
    options.max_fragments = static_cast<unsigned>(below(10));
    options.boxes = static_cast<unsigned>(below(20));
    options.box_size = below(2) == 0 ? 0 : 2 * options.cacheline << below(3);
    check_promises(plan_of(options));
  }
}

TEST_CASE("the aggregated layout has the RFC's order in each process's part") {
  const Plan plan = plan_of(options_for(6, RDM_SHM_AGGREGATED));
  const uint32_t me = 2;
  const std::vector<uint64_t> order = {
      plan.pair(0, me).fifo,    plan.pair(1, me).fifo,    plan.pair(5, me).fifo,
      plan.pair(0, me).queue,   plan.pair(1, me).queue,   plan.pair(5, me).queue,
      plan.pair(me, 0).head,    plan.pair(0, me).tail,    plan.pair(me, 1).head,
      plan.pair(1, me).tail,    plan.pair(me, 5).head,    plan.pair(5, me).tail,
      plan.pair(0, me).wrapper, plan.pair(1, me).wrapper, plan.pair(5, me).wrapper};
  CHECK(std::is_sorted(order.begin(), order.end()));
  for (const uint64_t first : {plan.pair(0, me).fifo, plan.pair(0, me).queue, plan.pair(me, 0).head,
                               plan.pair(0, me).wrapper}) {
    CHECK(first % plan.shape().cacheline == 0);
  }
  CHECK(plan.pair(me, 1).head - plan.pair(me, 0).head == kHeadBytes + kTailBytes);
}

TEST_CASE("components of plans for thousands of processes lie in the parts they belong to") {
  for (const unsigned procs : {1024U, 4096U}) {
    for (const unsigned layout : {RDM_SHM_AGGREGATED, RDM_SHM_CACHELINE, RDM_SHM_PAGE}) {
      const Plan plan = plan_of(options_for(procs, layout));
      const auto lies_in = [&plan](uint32_t rank, uint64_t offset, uint64_t bytes) {
        return offset >= plan.part(rank).offset && offset + bytes <= plan.part(rank).end();
      };
      for (const uint32_t from : {0U, 1U, procs / 2, procs - 1}) {
        for (const uint32_t to : {0U, 2U, procs / 3, procs - 1}) {
          if (from == to) continue;
          CHECK(lies_in(to, plan.pair(from, to).queue, 128 * kEntryBytes));
          CHECK(lies_in(to, plan.pair(from, to).tail, kTailBytes));
          CHECK(lies_in(to, plan.pair(from, to).wrapper, kWrapperBytes));
          CHECK(lies_in(from, plan.pair(from, to).head, kHeadBytes));
        }
      }
      const uint32_t last = procs - 1;
      CHECK(
          lies_in(last, plan.at(last, plan.eager().fragment(plan.eager().count() - 1)), 4096 + 64));
      CHECK(lies_in(last, plan.at(last, plan.large().fragment(plan.large().count() - 1)),
                    32768 + 64));
    }
  }
}

namespace {

// The message for options that must be refused.
std::string refusal_of(rdm_shm_plan_options options) {
  char why[200] = "";
  options.error = why;
  options.error_size = sizeof why;
  rdm_shm_plan rows = {};
  rows.size = sizeof rows;
  CHECK(rdm_shm_plan_get(&options, &rows) == RDM_INVALID);
  CHECK(rows.bytes == 0);
  return why;
}

bool says(const std::string& sentence, const char* words) {
  return sentence.find(words) != std::string::npos;
}

}  // namespace

TEST_CASE("options out of range are refused with a sentence that names them") {
  const rdm_shm_plan_options good = options_for(4, RDM_SHM_PAGE);
  const auto with = [&good](auto member, auto value) {
    rdm_shm_plan_options options = good;
    options.*member = value;
    return refusal_of(options);
  };
  using Options = rdm_shm_plan_options;
  CHECK(says(with(&Options::procs, 0U), "procs must be from 1 to 65536, not 0"));
  CHECK(says(with(&Options::procs, 65537U), "not 65537"));
  CHECK(says(with(&Options::layout, 4U), "no layout 4"));
  CHECK(says(with(&Options::flags, 8U), "flags"));
  CHECK(says(with(&Options::queue_entries, 100U), "queue entries must be a power of two"));
  CHECK(says(with(&Options::queue_entries, 1U), "queue entries"));
  CHECK(says(with(&Options::page_size, size_t{5000}), "page size must be a power of two"));
  CHECK(says(with(&Options::page_size, size_t{2048}), "page size"));
  CHECK(says(with(&Options::cacheline, size_t{100}), "cacheline must be a power of two"));
  CHECK(says(with(&Options::eager_limit, SIZE_MAX), "eager limit"));
  CHECK(says(with(&Options::chunk_size, SIZE_MAX), "chunk size"));
  CHECK(says(with(&Options::eager_fragments, UINT32_MAX), "eager fragments"));
  CHECK(says(with(&Options::max_fragments, UINT32_MAX), "max fragments"));
  CHECK(says(with(&Options::boxes, UINT32_MAX), "boxes"));
  CHECK(says(with(&Options::box_size, size_t{300}), "box size"));

  rdm_shm_plan_options inside = options_for(4, RDM_SHM_AGGREGATED, RDM_SHM_EAGER_WITH_HEADER);
  inside.eager_limit = kFragmentHeaderBytes;
  CHECK(says(refusal_of(inside), "eager limit must be from 65"));
}

TEST_CASE("a number that is 0 stands for the one that the header names") {
  // The control: doubling any of the numbers changes the plan, in some layout.
  int differences[9] = {};
  for (const unsigned layout : kLayouts) {
    const bool is_mpsc = layout == RDM_SHM_MPSC;
    constexpr unsigned kProcs = 20;
    rdm_shm_plan_options named = options_for(kProcs, layout);
    named.queue_entries = RDM_SHM_QUEUE_ENTRIES;
    named.page_size = os::page_size();
    named.cacheline = RDM_SHM_CACHELINE_SIZE;
    named.eager_limit = RDM_SHM_EAGER_LIMIT;
    named.chunk_size = RDM_SHM_CHUNK_SIZE;
    named.eager_fragments =
        is_mpsc ? unsigned{RDM_SHM_EAGER_FRAGMENTS_MPSC} : RDM_SHM_EAGER_FRAGMENTS * kProcs;
    named.max_fragments = RDM_SHM_MAX_FRAGMENTS;
    named.boxes = RDM_SHM_BOXES;
    named.box_size = RDM_SHM_BOX_SIZE;
    CHECK(rows_of(named).bytes == rows_of(options_for(kProcs, layout)).bytes);
    named.page_size = 4096;  // larger ones would hide small differences
    const auto differs = [&](auto rdm_shm_plan_options::*member) {
      rdm_shm_plan_options other = named;
      other.*member *= 2;
      return rows_of(other).bytes != rows_of(named).bytes ? 1 : 0;
    };
    differences[0] += differs(&rdm_shm_plan_options::queue_entries);
    differences[1] += differs(&rdm_shm_plan_options::page_size);
    differences[2] += differs(&rdm_shm_plan_options::cacheline);
    differences[3] += differs(&rdm_shm_plan_options::eager_limit);
    differences[4] += differs(&rdm_shm_plan_options::chunk_size);
    differences[5] += differs(&rdm_shm_plan_options::eager_fragments);
    differences[6] += differs(&rdm_shm_plan_options::max_fragments);
    differences[7] += differs(&rdm_shm_plan_options::boxes);
    differences[8] += differs(&rdm_shm_plan_options::box_size);
  }
  for (int i = 0; i < 9; ++i) {
    CAPTURE(i);
    CHECK(differences[i] > 0);
  }
}

TEST_CASE("callers built against an older header are served, and nulls refused") {
  rdm_shm_plan_options options = options_for(4, RDM_SHM_PAGE);
  rdm_shm_plan rows = {};
  rows.size = offsetof(rdm_shm_plan, heads);
  options.size = offsetof(rdm_shm_plan_options, queue_entries);
  options.queue_entries = 7;  // not read
  REQUIRE(rdm_shm_plan_get(&options, &rows) == RDM_OK);
  CHECK(rows.bytes == rows_of(options_for(4, RDM_SHM_PAGE)).bytes);
  CHECK(rows.size == offsetof(rdm_shm_plan, heads));
  CHECK(rows.heads == 0);  // not written

  CHECK(rdm_shm_plan_get(nullptr, &rows) == RDM_INVALID);
  CHECK(rdm_shm_plan_get(&options, nullptr) == RDM_INVALID);
  options.size = 0;
  CHECK(rdm_shm_plan_get(&options, &rows) == RDM_INVALID);
}

TEST_CASE("a shape from anywhere gives a plan or a refusal, and never another process's memory") {
  uint64_t seed = 4096;
  const auto next = [&seed] {
    seed = seed * 6364136223846793005U + 1442695040888963407U;
    return seed >> 32;
  };
  const Plan good = plan_of(options_for(5, RDM_SHM_AGGREGATED));
  int made = 0;
  for (size_t round = 0; round < test::rounds(20'000); ++round) {
    Shape shape = good.shape();
    auto* bytes = reinterpret_cast<unsigned char*>(&shape);
    for (uint64_t flips = 1 + next() % 3; flips > 0; --flips) {
      bytes[next() % sizeof shape] ^= static_cast<unsigned char>(1U << (next() % 8));
    }
    Plan plan;
    if (Plan::make(shape, &plan, nullptr, 0) != RDM_OK) continue;
    ++made;
    const uint32_t last = shape.procs - 1;
    CHECK(plan.part(last).end() == plan.bytes());
    CHECK(plan.bytes() <= INT64_MAX);
    CHECK(plan.at(last, plan.eager().fragment(plan.eager().count() - 1)) + plan.eager().bytes() <=
          plan.bytes());
  }
  CHECK(made > static_cast<int>(test::rounds(100)));
}

}  // namespace rdmalloc::shm
