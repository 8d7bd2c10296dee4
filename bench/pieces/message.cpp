#include "bench/pieces/message.h"

#include <string.h>
#include <unistd.h>

#include <array>

#include "allocator/os/newer_headers.h"
#include "bench/lookup/race.h"
#include "bench/workloads/meter.h"

namespace rdmalloc::bench {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

double time_of(const auto& work) {
  const uint64_t before = now_ns(CLOCK_MONOTONIC);
  work();
  return static_cast<double>(now_ns(CLOCK_MONOTONIC) - before);
}

rdm_domain* open_domain(int ring_fd) {
  char why[256] = "";
  rdm_domain_options options{};
  options.size = sizeof options;
  options.flags = RDM_DOMAIN_LEAVE_NOTHING_PINNED;
  options.error = why;
  options.error_size = sizeof why;
  rdm_domain* domain = nullptr;
  if (rdm_domain_open_io_uring(ring_fd, &options, &domain) != RDM_OK) {
    fail("rdm_domain_open_io_uring", why);
  }
  return domain;
}

// Aligned to a huge page.
char* map_memory(size_t length, Pages pages) {
  void* mapped = mmap(nullptr, length + kHugePage, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) fail("mmap", "no memory");
  const auto start = reinterpret_cast<uintptr_t>(mapped);
  auto* const memory = reinterpret_cast<char*>((start + kHugePage - 1) & ~(kHugePage - 1));
  madvise(memory, length, pages == Pages::kHuge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
  if (pages != Pages::kFresh && madvise(memory, length, MADV_POPULATE_WRITE) != 0) {
    fail("madvise", "no memory");
  }
  return memory;
}

}  // namespace

Message::Message(Pages pages, size_t length)
    : pages_(pages), length_(length), domain_(open_domain(ring_.fd())) {
  file_ = memfd_create("message", MFD_CLOEXEC);
  if (file_ < 0 || ftruncate(file_, static_cast<off_t>(length)) != 0) fail("memfd", "no memory");
  void* mapped = mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file_, 0);
  if (mapped == MAP_FAILED) fail("mmap", "no memory");
  arrived_ = static_cast<char*>(mapped);
  memory_ = map_memory(length, pages);
}

Message::~Message() {
  if (rdm_domain_close(domain_) != RDM_OK) fail("rdm_domain_close", rdm_last_error());
  close(file_);
  munmap(arrived_, length_);
  munmap(memory_, length_);
}

void Message::prepare() {
  if (pages_ == Pages::kFresh) madvise(memory_, length_, MADV_DONTNEED);
}

// Each byte differs from its neighbours in the page, and each page from the others.
void Message::fill(char* bytes, unsigned seed) const {
  for (size_t i = 0; i < length_; ++i) bytes[i] = static_cast<char>(i * 167 + (i >> 12) + seed);
}

void Message::start_proof() {
  fill(source(), ++seed_);
  memset(target(), 0, length_);
}

void Message::end_proof() {
  if (memcmp(source(), target(), length_) == 0) return;
  fail("a message", "other bytes arrived than were sent");
}

rdm_mr Message::get() {
  rdm_mr mr{};
  if (rdm_get(domain_, memory_, length_, &mr) != RDM_OK) fail("rdm_get", rdm_last_error());
  return mr;
}

void Message::put(const rdm_mr& mr) {
  if (rdm_put(domain_, &mr) != RDM_OK) fail("rdm_put", rdm_last_error());
}

Ring::Transfer Message::transfer(char* address, size_t length, const rdm_mr& mr) const {
  return {pages_ == Pages::kFresh ? Ring::Direction::kFromFile : Ring::Direction::kToFile,
          file_,
          static_cast<size_t>(address - memory_),
          address,
          length,
          mr.lkey};
}

void Message::transfer_whole(const rdm_mr& mr) {
  ring_.start(transfer(memory_, length_, mr), 0);
  ring_.finish();
}

void Message::transfer_parts(const rdm_mr& mr, size_t piece, unsigned most) {
  unsigned held = 0;
  uint64_t id = 0;
  for (size_t done = 0; done < length_; done += piece) {
    if (held == most) {
      id = ring_.finish();
    } else {
      id = held++;
    }
    ring_.start(transfer(memory_ + done, piece, mr), id);
  }
  while (held-- != 0) ring_.finish();
}

void Message::transfer_pieces(size_t piece_length, unsigned most) {
  rdm_pieces pieces{};
  if (rdm_pieces_begin(domain_, memory_, length_, piece_length, most, &pieces) != RDM_OK) {
    fail("rdm_pieces_begin", rdm_last_error());
  }
  std::array<rdm_piece, Ring::kDepth> held{};
  unsigned free = (1U << most) - 1;
  const unsigned all_free = free;
  const auto finish_one = [&] {
    const uint64_t id = ring_.finish();
    if (rdm_pieces_done(&pieces, &held[id]) != RDM_OK) fail("rdm_pieces_done", rdm_last_error());
    free |= 1U << id;
  };
  for (;;) {
    rdm_piece piece{};
    const int status = rdm_pieces_next(&pieces, &piece);
    if (status == RDM_BUSY) {
      finish_one();
      continue;
    }
    if (status != RDM_OK) fail("rdm_pieces_next", rdm_last_error());
    if (piece.length == 0) break;
    const auto id = static_cast<unsigned>(__builtin_ctz(free));
    free &= ~(1U << id);
    held[id] = piece;
    ring_.start(transfer(piece.address, piece.length, piece.mr), id);
  }
  while (free != all_free) finish_one();
}

double Message::registered_before() {
  const rdm_mr mr = get();
  const double ns = time_of([&] { transfer_whole(mr); });
  put(mr);
  return ns;
}

double Message::registered_before(size_t piece, unsigned most) {
  const rdm_mr mr = get();
  const double ns = time_of([&] { transfer_parts(mr, piece, most); });
  put(mr);
  return ns;
}

double Message::whole() {
  return time_of([&] {
    const rdm_mr mr = get();
    transfer_whole(mr);
    put(mr);
  });
}

double Message::pieces(size_t piece, unsigned most) {
  return time_of([&] { transfer_pieces(piece, most); });
}

double Message::no_transfer() {
  return time_of([&] { put(get()); });
}

}  // namespace rdmalloc::bench
