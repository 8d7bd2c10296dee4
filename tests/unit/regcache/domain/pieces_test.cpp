// Messages in pieces, over a fake backend: of foreign memory, of the window, and of unpinned memory
// in it.
#include <algorithm>
#include <cstring>
#include <vector>

#include "allocator/last_error.h"
#include "tests/support/registry_fixture.h"

namespace rdmalloc {
namespace {

const size_t kPage = os::page_size();
constexpr size_t kMiB = size_t{1} << 20;

// Nothing is mapped there, and nothing is read.
char* const kForeign = reinterpret_cast<char*>(uintptr_t{1} << 40);

struct Random {
  uint64_t state;
  uint64_t below(uint64_t bound) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % bound;
  }
};

struct Fixture : fake::WatchedRegistryFixture {
  rdm_domain_options options{};
  Domain* domain = nullptr;

  void open() { domain = opened(backend, options); }
  // Nothing is in use any more.
  void close() { check_closes_clean(domain); }
  rdm_domain* handle() const { return reinterpret_cast<rdm_domain*>(domain); }

  rdm_pieces begun(const void* address, size_t length, size_t piece_length, unsigned most) const {
    rdm_pieces pieces{};
    REQUIRE(rdm_pieces_begin(handle(), address, length, piece_length, most, &pieces) == RDM_OK);
    return pieces;
  }

  rdm_piece next(rdm_pieces& pieces) const {
    rdm_piece piece{};
    INFO(last_error());
    REQUIRE(rdm_pieces_next(&pieces, &piece) == RDM_OK);
    if (piece.length != 0) REQUIRE(backend.covers(piece.mr, piece.address, piece.length));
    return piece;
  }
};

void give_back(rdm_pieces& pieces, const rdm_piece& piece) {
  REQUIRE(rdm_pieces_done(&pieces, &piece) == RDM_OK);
}

bool says(const char* part) { return strstr(last_error(), part) != nullptr; }

// Takes as many pieces as possible, returns one when there are no more, and so on to the end: all
// bytes, each once, in order. Returns the number of pieces.
size_t walk(const Fixture& f, rdm_pieces& pieces, const char* address, size_t length,
            Random random = {1}) {
  std::vector<rdm_piece> held;
  const char* at = address;
  size_t count = 0;
  for (;;) {
    rdm_piece piece{};
    const int status = rdm_pieces_next(&pieces, &piece);
    if (status == RDM_BUSY) {
      REQUIRE_FALSE(held.empty());
      const size_t which = random.below(held.size());
      give_back(pieces, held[which]);
      held.erase(held.begin() + static_cast<ptrdiff_t>(which));
      continue;
    }
    INFO(last_error());
    REQUIRE(status == RDM_OK);
    if (piece.length == 0) break;
    REQUIRE(piece.address == at);
    REQUIRE(f.backend.covers(piece.mr, piece.address, piece.length));
    at += piece.length;
    ++count;
    held.push_back(piece);
    REQUIRE(held.size() <= pieces.most);
    REQUIRE(pieces.held == held.size());
    for (const rdm_piece& one : held) {
      REQUIRE(f.backend.covers(one.mr, one.address, one.length));
    }
  }
  REQUIRE(at == address + length);
  for (const rdm_piece& one : held) give_back(pieces, one);
  REQUIRE(pieces.held == 0);
  return count;
}

bool ends_at_multiple(const rdm_piece& piece, size_t of) {
  return (reinterpret_cast<uintptr_t>(piece.address) + piece.length) % of == 0;
}

TEST_CASE("pieces end at multiples of their length, but for the last") {
  Fixture f;
  f.open();
  rdm_pieces pieces = f.begun(kForeign + 100, 3 * kMiB, 0, 0);
  REQUIRE(pieces.piece_length == kMiB);
  REQUIRE(pieces.most == 2);
  REQUIRE(f.backend.calls() == 0);
  for (const size_t length : {kMiB - 100, kMiB, kMiB, size_t{100}}) {
    const rdm_piece piece = f.next(pieces);
    REQUIRE(piece.length == length);
    REQUIRE(ends_at_multiple(piece, kMiB) == (length != 100));
    give_back(pieces, piece);
  }
  REQUIRE(f.next(pieces).length == 0);
  REQUIRE(f.next(pieces).length == 0);
  f.close();
}

TEST_CASE(
    "a length that is no power of two is rounded up to pages, and pieces end at its multiples") {
  Fixture f;
  f.open();
  rdm_pieces pieces = f.begun(kForeign + 5, kMiB, 3 * kPage - 7, 4);
  REQUIRE(pieces.piece_length == 3 * kPage);
  for (rdm_piece piece = f.next(pieces); piece.length != 0; piece = f.next(pieces)) {
    const bool is_last = piece.address + piece.length == kForeign + 5 + kMiB;
    REQUIRE((is_last || ends_at_multiple(piece, 3 * kPage)));
    REQUIRE(piece.length <= 3 * kPage);
    give_back(pieces, piece);
  }
  f.close();
}

TEST_CASE("a message longer than all that may be registered goes through with one piece") {
  Fixture f;
  f.options.foreign_bytes = kMiB;
  f.options.flags = GENERATE(0u, unsigned{RDM_DOMAIN_LEAVE_NOTHING_PINNED});
  f.open();
  rdm_mr whole{};
  REQUIRE(Domain::get(f.domain, kForeign, 64 * kMiB, &whole) == RDM_OUT_OF_BUDGET);
  rdm_pieces pieces = f.begun(kForeign, 64 * kMiB, kMiB, 1);
  REQUIRE(walk(f, pieces, kForeign, 64 * kMiB) == 64);
  REQUIRE(f.backend.registered_bytes() <= kMiB);
  f.close();
}

TEST_CASE("a piece that finds no room becomes shorter, down to a page") {
  Fixture f;
  const size_t pages = GENERATE(1u, 2u, 3u, 7u);
  f.options.foreign_bytes = pages * kPage;
  f.open();
  rdm_pieces pieces = f.begun(kForeign + 1, kMiB, 0, 1);
  const rdm_piece first = f.next(pieces);
  REQUIRE(first.address == kForeign + 1);
  REQUIRE(pieces.piece_length <= pages * kPage);
  REQUIRE(pieces.piece_length > pages * kPage / 2);
  give_back(pieces, first);
  (void)walk(f, pieces, kForeign + 1 + first.length, kMiB - first.length);
  REQUIRE(f.backend.registered_bytes() <= pages * kPage);
  f.close();
}

TEST_CASE("no more pieces are out than may be, and none more than there is room for") {
  Fixture f;
  f.options.foreign_bytes = 3 * kMiB;
  f.open();
  rdm_pieces pieces = f.begun(kForeign, 16 * kMiB, kMiB, 2);
  rdm_piece first = f.next(pieces);
  const rdm_piece second = f.next(pieces);
  rdm_piece none{};
  REQUIRE(rdm_pieces_next(&pieces, &none) == RDM_BUSY);
  REQUIRE(says("as many pieces are out as may be"));
  give_back(pieces, second);
  give_back(pieces, first);

  pieces = f.begun(kForeign, 16 * kMiB, kMiB, 8);
  rdm_piece held[3] = {f.next(pieces), f.next(pieces), f.next(pieces)};
  REQUIRE(rdm_pieces_next(&pieces, &none) == RDM_BUSY);
  REQUIRE(says("no room to register another piece"));
  REQUIRE(none.length == 0);
  REQUIRE(pieces.held == 3);
  REQUIRE(pieces.piece_length == kMiB);
  give_back(pieces, held[1]);
  held[1] = f.next(pieces);
  REQUIRE(held[1].address == kForeign + 3 * kMiB);
  for (const rdm_piece& one : held) give_back(pieces, one);
  f.close();
}

TEST_CASE("where others use all there may be, a message waits for nobody and loses nothing") {
  Fixture f;
  f.options.foreign_bytes = kMiB;
  f.open();
  rdm_mr all{};
  REQUIRE(Domain::get(f.domain, kForeign + 64 * kMiB, kMiB, &all) == RDM_OK);
  rdm_pieces pieces = f.begun(kForeign, 2 * kMiB, kMiB, 2);
  rdm_piece none{};
  REQUIRE(rdm_pieces_next(&pieces, &none) == RDM_OUT_OF_BUDGET);
  REQUIRE(says("in use"));
  REQUIRE(pieces.held == 0);
  REQUIRE(Domain::put(f.domain, &all) == RDM_OK);
  // In pieces of the same length as before.
  REQUIRE(walk(f, pieces, kForeign, 2 * kMiB) == 2);
  f.close();
}

TEST_CASE("memory longer than the device's largest memory region goes through in shorter pieces") {
  Fixture f;
  f.backend.limits.max_length = 3 * kMiB / 8;
  f.open();
  rdm_pieces pieces = f.begun(kForeign + 9, 4 * kMiB, kMiB, 3);
  (void)walk(f, pieces, kForeign + 9, 4 * kMiB);
  REQUIRE(pieces.piece_length == kMiB / 4);
  f.close();
}

TEST_CASE("a device that registers larger units gets them, whatever the pieces") {
  Fixture f;
  f.backend.limits.alignment = 16 * kPage;
  f.options.foreign_bytes = 64 * kPage;
  f.open();
  rdm_pieces pieces = f.begun(kForeign + 9, kMiB, 3 * kPage, 2);
  (void)walk(f, pieces, kForeign + 9, kMiB);
  f.close();
}

TEST_CASE("a piece of the window lies in one memory region, and costs no registration") {
  Fixture f;
  f.backend.limits.max_length = GENERATE(size_t{0}, 3 * kMiB / 2, 5 * kPage);
  const Region& region = f.source.acquire(8 * kMiB);
  f.open();
  const uint64_t calls = f.backend.calls();
  auto* const address = reinterpret_cast<char*>(region.base) + 123;
  const size_t length = region.length - 456;
  rdm_pieces pieces = f.begun(address, length, kMiB, 3);
  const size_t count = walk(f, pieces, address, length);
  REQUIRE(pieces.piece_length == kMiB);
  REQUIRE(count >= 8);
  if (f.backend.limits.max_length == 0) REQUIRE(count == 8);
  REQUIRE(f.backend.calls() == calls);
  f.close();
}

TEST_CASE("what the window holds unpinned goes through as foreign memory does") {
  Fixture f;
  f.options.foreign_bytes = kMiB;
  const Region& region = f.source.acquire(8 * kMiB, RegionKind::kOverflow);
  f.open();
  REQUIRE(f.backend.registered().empty());
  auto* const address = reinterpret_cast<char*>(region.base) + 123;
  rdm_pieces pieces = f.begun(address, 4 * kMiB, kMiB, 2);
  (void)walk(f, pieces, address, 4 * kMiB);
  REQUIRE(f.backend.registered_bytes() != 0);
  f.close();
}

TEST_CASE("a message that runs out of the window, or into it, is refused when it does") {
  Fixture f;
  const Region& region = f.source.acquire(2 * kMiB);
  f.open();
  auto* const last = reinterpret_cast<char*>(region.end()) - kPage;
  rdm_piece piece{};
  rdm_pieces pieces = f.begun(last, 2 * kMiB, kPage, 2);
  give_back(pieces, f.next(pieces));
  const int status = rdm_pieces_next(&pieces, &piece);
  REQUIRE((status == RDM_NOT_OWNED || status == RDM_INVALID));
  REQUIRE(piece.length == 0);

  auto* const before = reinterpret_cast<char*>(f.source.window().base()) - 2 * kPage;
  pieces = f.begun(before, 3 * kMiB, kMiB, 2);
  const rdm_piece outside = f.next(pieces);
  REQUIRE(outside.length == 2 * kPage);
  give_back(pieces, outside);
  give_back(pieces, f.next(pieces));
  f.close();
}

TEST_CASE("whichever registration fails, the reason is told and the message can go on") {
  for (uint64_t k = 1; k <= 6; ++k) {
    Fixture f;
    f.backend.fail_only = k;
    f.options.flags = RDM_DOMAIN_LEAVE_NOTHING_PINNED;
    f.open();
    rdm_pieces pieces = f.begun(kForeign, 6 * kMiB, kMiB, 2);
    for (uint64_t i = 1; i <= 6; ++i) {
      rdm_piece piece{};
      int status = rdm_pieces_next(&pieces, &piece);
      REQUIRE(status == (i == k ? RDM_SYSTEM : RDM_OK));
      if (status != RDM_OK) {
        REQUIRE(says("was to fail"));
        REQUIRE(pieces.held == 0);
        piece = f.next(pieces);
      }
      REQUIRE(piece.address == kForeign + (i - 1) * kMiB);
      give_back(pieces, piece);
    }
    REQUIRE(f.next(pieces).length == 0);
    f.close();
  }
}

TEST_CASE("any message is covered once, whatever its ends, its pieces and the room for them") {
  for (uint64_t seed = 1; seed <= 120; ++seed) {
    INFO("seed " << seed);
    Random random{seed};
    Fixture f;
    const size_t limits[] = {0, kPage, 5 * kPage, 33 * kPage, kMiB};
    f.options.foreign_bytes = limits[random.below(5)];
    f.options.foreign_count = static_cast<unsigned>(random.below(4));
    if (random.below(2) == 0) f.options.flags = RDM_DOMAIN_LEAVE_NOTHING_PINNED;
    if (random.below(3) == 0) f.backend.limits.max_length = (1 + random.below(40)) * kPage;
    const Region& region = f.source.acquire(2 * kMiB);
    fake::monitor.can_watch = random.below(4) != 0;
    f.open();
    for (int message = 0; message < 6; ++message) {
      const bool in_window = random.below(3) == 0;
      char* const base = in_window ? reinterpret_cast<char*>(region.base) : kForeign;
      char* const address = base + random.below(kMiB);
      const size_t length = 1 + random.below(random.below(2) == 0 ? 3 * kPage : kMiB);
      const size_t piece_length = 1 + random.below(random.below(2) == 0 ? 4 * kPage : 2 * kMiB);
      const auto most = static_cast<unsigned>(random.below(5));
      rdm_pieces pieces = f.begun(address, length, piece_length, most);
      (void)walk(f, pieces, address, length, random);
      const size_t foreign = f.backend.registered_bytes() - region.length;
      if (f.options.foreign_bytes != 0) REQUIRE(foreign <= f.options.foreign_bytes);
    }
    f.close();
  }
}

TEST_CASE("pieces of nothing, of nowhere and given back twice are refused with a sentence") {
  Fixture f;
  f.open();
  rdm_pieces pieces{};
  rdm_piece piece{};
  const auto refused = [&](rdm_domain* domain, const void* address, size_t length,
                           size_t piece_length, rdm_pieces* out) {
    new_last_error()[0] = '\0';
    REQUIRE(rdm_pieces_begin(domain, address, length, piece_length, 0, out) == RDM_INVALID);
    REQUIRE(*last_error() != '\0');
    REQUIRE(pieces.domain == nullptr);
  };
  refused(nullptr, kForeign, kMiB, 0, &pieces);
  refused(f.handle(), kForeign, kMiB, 0, nullptr);
  refused(f.handle(), kForeign, 0, 0, &pieces);
  refused(f.handle(), kForeign, SIZE_MAX, 0, &pieces);
  refused(f.handle(), kForeign, kMiB, SIZE_MAX - 5, &pieces);
  REQUIRE(rdm_pieces_next(nullptr, &piece) == RDM_INVALID);
  REQUIRE(rdm_pieces_next(&pieces, nullptr) == RDM_INVALID);
  REQUIRE(rdm_pieces_done(&pieces, &piece) == RDM_INVALID);

  pieces = f.begun(kForeign, 4 * kMiB, kMiB, 2);
  piece = f.next(pieces);
  const rdm_piece second = f.next(pieces);
  REQUIRE(rdm_pieces_done(nullptr, &piece) == RDM_INVALID);
  REQUIRE(rdm_pieces_done(&pieces, nullptr) == RDM_INVALID);
  const rdm_piece end{};
  REQUIRE(rdm_pieces_done(&pieces, &end) == RDM_INVALID);
  give_back(pieces, piece);
  REQUIRE(rdm_pieces_done(&pieces, &piece) == RDM_INVALID);
  REQUIRE(pieces.held == 1);
  give_back(pieces, second);
  REQUIRE(rdm_pieces_done(&pieces, &second) == RDM_INVALID);
  REQUIRE(says("given back already"));
  f.close();
  REQUIRE(rdm_pieces_next(&pieces, &piece) == RDM_INVALID);
  REQUIRE(says("closed"));
}

}  // namespace
}  // namespace rdmalloc
