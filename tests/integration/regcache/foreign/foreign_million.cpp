// A million distinct buffers through a domain with a small limit on registrations: the limit is
// never exceeded, nothing is left over, and the cost of a get is measured.
//
//   foreign_million BUFFERS LIMIT PROMISED MONITOR      (a control promises less than the limit)
#include <algorithm>
#include <vector>

#include "tests/integration/regcache/foreign/foreign.h"

namespace {

const size_t kStretch = (size_t{16} << 20) / probe::kPage;  // pages mapped at any one time
constexpr uint64_t kMappingEvery = 16;  // every such buffer is a separate mapping
constexpr uint64_t kSendEvery = 64;
constexpr uint64_t kGrowth = size_t{64} << 20;  // allowed growth of resident memory

probe::Verdict verdict;

class Walk {
 public:
  Walk(uint64_t buffers, unsigned limit, uint64_t promised)
      : buffers_(buffers),
        promised_(promised),
        device_(probe::kPage, {0, limit, 0, 0, 0}, verdict) {
    times_.reserve(buffers);
  }
  void run();
  void report();
  void close();

 private:
  void use(char* page, uint64_t index);
  void check_books(uint64_t index);

  const uint64_t buffers_;
  const uint64_t promised_;  // registrations
  probe::ForeignDevice device_;
  std::vector<uint32_t> times_;  // ns of each get
  char* memory_ = nullptr;
  uint64_t highest_ = 0;
};

void Walk::use(char* page, uint64_t index) {
  const probe::Content content(index);
  const bool sent = index % kSendEvery == 0;
  if (sent) {
    content.fill(page, probe::kPage);
  } else {
    *page = 1;
  }
  rdm_mr mr{};
  const uint64_t start = probe::now_ns();
  const int status = device_.get(page, probe::kPage, &mr);
  times_.push_back(static_cast<uint32_t>(std::min<uint64_t>(probe::now_ns() - start, UINT32_MAX)));
  if (status != RDM_OK) {
    return verdict.broken("buffer %lu: %d: %s", index, status, probe::foreign().last_error());
  }
  if (sent && device_.send(mr, page, probe::kPage, content) != probe::Outcome::kRight) {
    verdict.broken("buffer %lu: the peer got other bytes, or none", index);
  }
  if (device_.put(mr) != RDM_OK) verdict.broken("put: %s", probe::foreign().last_error());
}

void Walk::check_books(uint64_t index) {
  const uint64_t now = probe::stats().foreign_regions;
  highest_ = std::max(highest_, now);
  if (now > promised_) verdict.broken("after buffer %lu: %lu registrations", index, now);
}

void Walk::run() {
  const size_t room = buffers_ * probe::kPage;
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void* got = mmap(nullptr, room, PROT_READ | PROT_WRITE, kFlags, -1, 0);
  if (got == MAP_FAILED) probe::skip("no address space");
  memory_ = static_cast<char*>(got);
  (void)madvise(memory_, room, MADV_NOHUGEPAGE);
  uint64_t resident = 0;
  for (uint64_t i = 0; i < buffers_ && verdict.count() < 5; ++i) {
    if (i % kMappingEvery == 0) {
      char* mapping = probe::map_pages(probe::kPage);
      use(mapping, i);
      munmap(mapping, probe::kPage);
    } else {
      use(memory_ + i * probe::kPage, i);
    }
    // Its addresses are used only once: what lies behind is dropped.
    if (i % kStretch == kStretch - 1) {
      madvise(memory_ + (i + 1 - kStretch) * probe::kPage, kStretch * probe::kPage, MADV_DONTNEED);
    }
    if (i % 1024 == 0) check_books(i);
    if (i == buffers_ / 4) resident = probe::resident_bytes();
  }
  const uint64_t grown = probe::resident_bytes();
  if (grown > resident + kGrowth)
    verdict.broken("%lu KiB more are resident", (grown - resident) >> 10);
  munmap(memory_, room);
}

void Walk::report() {
  if (times_.empty()) return verdict.broken("nothing was tried");
  uint64_t sum = 0;
  for (const uint32_t time : times_) sum += time;
  std::sort(times_.begin(), times_.end());
  const rdm_stats books = probe::stats();
  printf(
      "%zu buffers: a get took %lu ns in the mean, %u at the median, %u for the slowest of a "
      "thousand, %u at most\n"
      "%lu misses, %lu evictions, %lu invalidations; at most %lu registrations at a time\n",
      times_.size(), sum / times_.size(), times_[times_.size() / 2],
      times_[times_.size() - 1 - times_.size() / 1000], times_.back(), books.foreign_misses,
      books.foreign_evictions, books.foreign_invalidations, highest_);
  if (books.foreign_misses < buffers_)
    verdict.broken("%lu buffers were found registered", buffers_ - books.foreign_misses);
}

void Walk::close() {
  if (device_.close() != RDM_OK) verdict.broken("closing: %s", probe::foreign().last_error());
}

}  // namespace

int main(int argc, char** argv) {
  const uint64_t buffers = probe::argument(argc, argv, 1, 1000000);
  const auto limit = static_cast<unsigned>(probe::argument(argc, argv, 2, 64));
  (void)probe::foreign();
  const uint64_t before = probe::pinned_by_kernel();
  Walk walk(buffers, limit, probe::argument(argc, argv, 3, limit));
  probe::need_monitor(argc > 4 ? argv[4] : "any");
  walk.run();
  walk.report();
  walk.close();
  if (!probe::comes_to(before, probe::pinned_by_kernel)) {
    verdict.broken("%lu bytes stay pinned", probe::pinned_by_kernel() - before);
  }
  if (probe::stats().foreign_regions != 0) verdict.broken("the books still say registered");
  return verdict.status();
}
