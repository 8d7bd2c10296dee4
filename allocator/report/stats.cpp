#include "allocator/report/stats.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <atomic>

#include "allocator/engine/jemalloc.h"
#include "allocator/os/clock.h"
#include "allocator/os/confinement.h"
#include "allocator/os/file.h"
#include "allocator/os/limits.h"
#include "allocator/os/standard_error.h"
#include "allocator/pages/heap.h"
#include "allocator/pages/heap_counters.h"

namespace rdmalloc {
namespace {

// jemalloc's MALLCTL_ARENAS_ALL: an index that stands for the sum of all arenas.
#define MALLCTL_ALL "4096"

size_t from_jemalloc(const char* name) {
  size_t value = 0;
  size_t size = sizeof value;
  return je_mallctl(name, &value, &size, nullptr, 0) == 0 ? value : 0;
}

size_t window_mappings() {
  const uint64_t low = heap.window().base();
  const uint64_t high = low + heap.window().size();
  size_t count = 0;
  os::for_each_line("/proc/self/maps", [&](os::Text line) {
    uint64_t from = 0;
    uint64_t to = 0;
    if (os::parse_range(line, &from, &to) && from < high && to > low) ++count;
    return true;
  });
  return count;
}

// Buffered writing without stdio, which may allocate.
class Writer {
 public:
  static constexpr int kStandardError = -1;  // the one the process started with, if still open
  explicit Writer(int fd) : fd_(fd) {}
  void put(const char* text) {
    for (; *text != '\0'; ++text) put_char(*text);
  }
  void put_number(uint64_t number) { put(os::Decimal(number).c_string()); }
  // Rounds to a tenth.
  void put_mib(uint64_t bytes) {
    constexpr uint64_t kMib = uint64_t{1} << 20;
    const uint64_t tenths = bytes / kMib * 10 + (bytes % kMib * 10 + kMib / 2) / kMib;
    put_number(tenths / 10);
    put(".");
    put_number(tenths % 10);
  }
  void put_padded(const char* text, size_t width) {
    size_t length = os::text(text).size;
    put(text);
    for (; length < width; ++length) put_char(' ');
  }
  bool finish() {
    flush();
    return good_;
  }

 private:
  void put_char(char c) {
    if (size_ == sizeof buffer_) flush();
    buffer_[size_++] = c;
  }
  void flush() {
    if (fd_ == kStandardError) {
      os::write_standard_error(buffer_, size_);
    } else {
      good_ = good_ && os::write_all(fd_, buffer_, size_);
    }
    size_ = 0;
  }

  int fd_;
  bool good_ = true;
  size_t size_ = 0;
  char buffer_[2048];
};

// Retired addresses have no pages, so they need not be excluded.
size_t resident_bytes(const Region& region) {
  return os::resident_bytes(reinterpret_cast<const void*>(region.base), region.length);
}

// Where the kernel gives huge pages unasked, regions of base pages have some too.
bool come_unasked() {
  char modes[64];
  const ssize_t got =
      os::read_file("/sys/kernel/mm/transparent_hugepage/enabled", modes, sizeof modes - 1);
  if (got <= 0) return false;
  modes[got] = '\0';
  return strstr(modes, "[always]") != nullptr;
}

// The huge pages of each region, found in one pass over all mappings.
class HugeBytes {
 public:
  HugeBytes() : count_(heap.regions().size()) {
    bytes_ = static_cast<size_t*>(os::map_metadata(count_ * sizeof(size_t) + 1));
    if (bytes_ == nullptr) return;
    bool may_have = come_unasked();
    for (size_t i = 0; i < count_; ++i) {
      const Region& region = heap.regions()[i];
      if (region.page_kind == os::PageKind::kHugetlb) bytes_[i] = region.length - region.retired();
      may_have = may_have || region.page_kind == os::PageKind::kTransparentHuge;
    }
    if (!may_have) return;
    const auto add = [](void* self, uintptr_t start, size_t huge) {
      static_cast<HugeBytes*>(self)->add(start, huge);
    };
    const Window& window = heap.window();
    os::visit_transparent_huge(reinterpret_cast<void*>(window.base()), window.size(), add, this);
  }
  ~HugeBytes() {
    if (bytes_ != nullptr) os::unmap_metadata(bytes_, count_ * sizeof(size_t) + 1);
  }
  HugeBytes(const HugeBytes&) = delete;
  HugeBytes& operator=(const HugeBytes&) = delete;

  size_t of(const Region& region) const {
    return bytes_ == nullptr || region.index >= count_ ? 0 : bytes_[region.index];
  }

 private:
  void add(uintptr_t start, size_t huge) {
    const Region* const region = heap.regions().find(reinterpret_cast<void*>(start));
    if (region != nullptr && region->index < count_) bytes_[region->index] += huge;
  }

  size_t count_;
  size_t* bytes_ = nullptr;
};

size_t page_size(const Region& region, size_t huge_bytes) {
  return os::page_size_of(huge_bytes > region.length / 2 ? os::PageKind::kTransparentHuge
                                                         : os::PageKind::kBase);
}

// Which regions have transparent huge pages. One pass over all mappings answers for every region,
// and is not repeated for each query.
class SeenHugePages {
 public:
  bool is_huge(const Region& region) {
    if (os::now_ns() - read_at_.load(std::memory_order_acquire) > kStaleNs) read();
    return is_huge_[region.index].load(std::memory_order_relaxed);
  }

 private:
  static constexpr uint64_t kStaleNs = 100'000'000;

  void read() {
    if (reading_.exchange(true, std::memory_order_acquire)) return;
    const HugeBytes huge;
    for (size_t i = 0; i < heap.regions().size(); ++i) {
      const Region& region = heap.regions()[i];
      is_huge_[i].store(page_size(region, huge.of(region)) != os::page_size(),
                        std::memory_order_relaxed);
    }
    read_at_.store(os::now_ns(), std::memory_order_release);
    reading_.store(false, std::memory_order_release);
  }

  std::atomic<uint64_t> read_at_{0};  // os::now_ns()
  std::atomic<bool> reading_{false};
  std::atomic<bool> is_huge_[RegionTable::kMaxRegions] = {};
};
constinit SeenHugePages seen;

const char* kind_name(RegionKind kind) {
  switch (kind) {
    case RegionKind::kPinned:
      return "pinned";
    case RegionKind::kOverflow:
      return "overflow";
    case RegionKind::kSparse:
      return "sparse";
  }
  return "?";
}

void put_regions(Writer& out) {
  const RegionTable& regions = heap.regions();
  const HugeBytes huge;
  bool is_first = true;
  for (size_t i = 0; i < regions.size(); ++i) {
    const Region& region = regions[i];
    if (region.is_empty()) continue;
    out.put(is_first ? "\n    {\"base\": " : ",\n    {\"base\": ");
    is_first = false;
    out.put_number(region.base);
    out.put(", \"length\": ");
    out.put_number(region.length);
    out.put(", \"kind\": \"");
    out.put(kind_name(region.kind));
    out.put("\", \"node\": ");
    out.put_number(static_cast<uint64_t>(region.node));
    out.put(", \"page_size\": ");
    out.put_number(page_size(region, huge.of(region)));
    out.put(", \"retired\": ");
    out.put_number(region.retired());
    out.put(region.locked ? ", \"locked\": true" : ", \"locked\": false");
    out.put(region.sealed ? ", \"sealed\": true" : ", \"sealed\": false");
    out.put(region.exposed ? ", \"exposed\": true}" : ", \"exposed\": false}");
  }
}

void put_json_string(Writer& out, const char* text) {
  constexpr char kDigits[] = "0123456789abcdef";
  out.put("\"");
  for (; *text != '\0'; ++text) {
    const auto byte = static_cast<unsigned char>(*text);
    const char plain[] = {*text, '\0'};
    const char escaped[] = {'\\', 'u', '0', '0', kDigits[byte >> 4], kDigits[byte & 15], '\0'};
    out.put(byte < ' ' || byte == '"' || byte == '\\' ? escaped : plain);
  }
  out.put("\"");
}

// In the order in which the phases were first entered.
void put_phases(Writer& out) {
  const CounterPage& page = heap.books().page();
  const uint64_t count = page.phase_count.load(std::memory_order_acquire);
  for (size_t i = 0; i < count; ++i) {
    const PhaseRecord& phase = page.phases[i];
    out.put(i == 0 ? "\n    {\"name\": " : ",\n    {\"name\": ");
    put_json_string(out, phase.name);
    const auto put = [&out](const char* key, uint64_t value) {
      out.put(", \"");
      out.put(key);
      out.put("\": ");
      out.put_number(value);
    };
    put("entered", phase.entered);
    put("ns", ns_in_phase(page, i, os::now_ns()));
    put("peak_live_bytes", phase.peak_live);
    put("peak_held_bytes", phase.peak_held);
    put("peak_pinned_bytes", phase.peak_pinned);
    put("peak_overflow_bytes", phase.peak_overflow);
    out.put("}");
  }
}

void put_heading(Writer& out) {
  out.put("rdmalloc statistics of process ");
  out.put_number(static_cast<uint64_t>(getpid()));
  out.put(" (");
  out.put(program_invocation_short_name);
  out.put(")\n");
}

}  // namespace

size_t page_size_of(const Region& region) {
  const bool is_known = region.page_kind != os::PageKind::kTransparentHuge || seen.is_huge(region);
  return os::page_size_of(is_known ? region.page_kind : os::PageKind::kBase);
}

rdm_stats gather_stats() {
  start_heap();
  // Writing "epoch" makes jemalloc sum up its counters.
  uint64_t epoch = 1;
  size_t epoch_size = sizeof epoch;
  (void)je_mallctl("epoch", &epoch, &epoch_size, &epoch, sizeof epoch);

  heap.look_at_limits();
  const Budget& budget = heap.budget();
  const size_t kept =
      from_jemalloc("stats.arenas." MALLCTL_ALL ".pdirty") * from_jemalloc("arenas.page");
  const HeapCounters counters = heap_counters(heap, kept);
  rdm_stats stats{};
  stats.live_bytes = counters.live;
  stats.peak_live_bytes = counters.peak_live;
  stats.allocated_bytes = from_jemalloc("stats.allocated") + counters.live_blocks;
  stats.held_bytes = budget.charges().held();
  stats.peak_held_bytes = counters.peak_held;
  stats.pinned_bytes = budget.charges().pinned();
  stats.peak_pinned_bytes = budget.charges().peak_pinned();
  stats.overflow_bytes = budget.charges().overflow();
  stats.sparse_bytes = budget.charges().sparse();
  stats.regions = counters.regions;
  stats.gathered_bytes = counters.gathered;
  stats.retired_bytes = counters.retired;
  stats.cached_bytes = counters.cached;
  stats.free_extents = counters.free_extents;
  stats.largest_free_bytes = counters.largest_free;
  stats.acquire_ns = counters.acquire_ns;
  const RegistrationCounters registered = heap.store().observers.registrations();
#define RDMALLOC_COUNTER(name) stats.name = registered.name;
  RDMALLOC_REGISTRATION_COUNTERS(RDMALLOC_COUNTER)
#undef RDMALLOC_COUNTER
  stats.budget_bytes = budget.pin_limit().bytes();
  stats.memory_cap_bytes = budget.memory().cap();
  stats.budget_limited_by = static_cast<uint64_t>(budget.pin_limit().limited_by());
  stats.window_bytes = heap.window().size();
  stats.metadata_bytes = counters.metadata + engine::metadata_bytes();
  stats.mapped_vmas = window_mappings();
  stats.forked = heap.forked() ? 1 : 0;
  uint64_t hugetlb = 0;
  const HugeBytes huge;
  for (size_t i = 0; i < heap.regions().size(); ++i) {
    const Region& region = heap.regions()[i];
    if (region.is_empty()) continue;
    if (region.sealed) ++stats.sealed;
    stats.resident_bytes += resident_bytes(region);
    stats.huge_bytes += huge.of(region);
    if (region.page_kind == os::PageKind::kHugetlb) hugetlb += region.length;
  }
  // The program may have called munlockall. The kernel does not count hugetlb pages as locked.
  const uint64_t locked = os::locked_memory();
  if (locked != os::kNoLimit && stats.pinned_bytes > locked + hugetlb) {
    stats.pinned_bytes = locked + hugetlb;
  }
  return stats;
}

bool write_json(const rdm_stats& stats, int fd) {
  Writer out(fd);
  out.put("{\n");
#define PUT(name, meaning)      \
  out.put("  \"" #name "\": "); \
  out.put_number(stats.name);   \
  out.put(",\n");
  RDM_STATS_LIST(PUT)
#undef PUT
  out.put("  \"budget_limited_by\": \"");
  out.put(name(static_cast<LimitedBy>(stats.budget_limited_by)));
  out.put("\",\n  \"huge_pages\": \"");
  out.put(heap.populator().huge_pages().watch().text());
  out.put("\",\n  \"pid\": ");
  out.put_number(static_cast<uint64_t>(getpid()));
  out.put(",\n  \"region_list\": [");
  put_regions(out);
  out.put("\n  ],\n  \"phases\": [");
  put_phases(out);
  out.put("\n  ]\n}\n");
  return out.finish();
}

void write_summary(const rdm_stats& stats) {
  Writer out(Writer::kStandardError);
  put_heading(out);
  out.put("  live     ");
  out.put_mib(stats.live_bytes);
  out.put(" MiB, at most ");
  out.put_mib(stats.peak_live_bytes);
  out.put(" MiB\n  held     ");
  out.put_mib(stats.held_bytes);
  out.put(" MiB, at most ");
  out.put_mib(stats.peak_held_bytes);
  out.put(" MiB: ");
  out.put_mib(stats.pinned_bytes);
  out.put(" MiB pinned, ");
  out.put_mib(stats.overflow_bytes);
  out.put(" MiB overflow, ");
  out.put_mib(stats.sparse_bytes);
  out.put(" MiB sparse\n  budget   ");
  out.put_mib(stats.budget_bytes);
  out.put(" MiB may be pinned, limited by ");
  out.put(name(static_cast<LimitedBy>(stats.budget_limited_by)));
  out.put("\n  devices  ");
  out.put_number(stats.registrations);
  out.put(" registrations of ");
  out.put_mib(stats.registered_bytes);
  out.put(" MiB; ");
  out.put_number(stats.lookups);
  out.put(" lookups, ");
  out.put_number(stats.lookup_misses);
  out.put(" in vain; foreign memory: ");
  out.put_number(stats.foreign_hits);
  out.put(" hits, ");
  out.put_number(stats.foreign_misses);
  out.put(" misses\n");
  (void)out.finish();
}

void write_figures(const rdm_stats& stats) {
  constexpr size_t kTextColumn = 26;  // the longest name and a blank
  Writer out(Writer::kStandardError);
  put_heading(out);
#define PUT(name, meaning)                 \
  out.put_padded("  " #name, kTextColumn); \
  out.put_number(stats.name);              \
  out.put("\n");
  RDM_STATS_LIST(PUT)
#undef PUT
  out.put_padded("  budget_limited_by", kTextColumn);
  out.put(name(static_cast<LimitedBy>(stats.budget_limited_by)));
  out.put("\n");
  out.put_padded("  huge_pages", kTextColumn);
  out.put(heap.populator().huge_pages().watch().text());
  out.put("\n");
  (void)out.finish();
}

}  // namespace rdmalloc
