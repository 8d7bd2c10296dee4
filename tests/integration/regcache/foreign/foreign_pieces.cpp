// A message longer than all that may be registered is sent in pieces, in any kind of memory, with
// one piece or several outstanding.
//
//   foreign_pieces MIB        of the message
#include <deque>

#include "tests/integration/regcache/foreign/foreign.h"

namespace {

constexpr size_t kMiB = size_t{1} << 20;
constexpr size_t kBudget = 2 * kMiB;

probe::Verdict verdict;
uint64_t seed = 0;

struct Message {
  const char* name;
  char* address;
  size_t length;
  size_t piece_length;
  unsigned most;
};

void check_budget(const char* name) {
  const uint64_t now = probe::stats().foreign_bytes;
  if (now > kBudget) verdict.broken("%s: %lu bytes are registered", name, now);
}

void expect(const char* what, int status, int expected) {
  const char* why = status == RDM_OK ? "" : probe::foreign().last_error();
  if (status != RDM_OK) printf("%s: %s: %s\n", what, probe::foreign().strerror(status), why);
  if (status != expected) verdict.broken("%s: status %d, and not %d", what, status, expected);
  if (status != RDM_OK && *why == '\0') verdict.broken("%s: no sentence", what);
}

// Pieces follow one another, have at most this many bytes, and end where they should.
bool is_next(const Message& message, size_t at, const rdm_piece& piece) {
  const char* end = piece.address + piece.length;
  if (piece.address != message.address + at || end > message.address + message.length) return false;
  const auto* base = static_cast<const char*>(piece.mr.base);
  return piece.length <= message.piece_length && base <= piece.address &&
         end <= base + piece.mr.length;
}

void give_back(rdm_pieces& pieces, std::deque<rdm_piece>& held, bool first) {
  const rdm_piece piece = first ? held.front() : held.back();
  first ? held.pop_front() : held.pop_back();
  if (probe::foreign().pieces_done(&pieces, &piece) != RDM_OK) {
    verdict.broken("a piece was not taken back: %s", probe::foreign().last_error());
  }
}

// Half of the pieces are sent, half received.
void transfer(probe::ForeignDevice& device, const Message& message, const rdm_piece& piece) {
  const probe::Outcome outcome =
      ++seed % 2 == 0 ? device.send_as_is(piece.mr, piece.address, piece.length)
                      : device.receive(piece.mr, piece.address, piece.length, probe::Content(seed));
  if (outcome != probe::Outcome::kRight) {
    verdict.broken("%s: other bytes, or none, in the piece at %p", message.name,
                   static_cast<void*>(piece.address));
  }
}

// Holds as many as allowed: RDM_BUSY must come at `most`, or earlier if there is no room.
size_t walk(probe::ForeignDevice& device, rdm_pieces& pieces, const Message& message) {
  std::deque<rdm_piece> held;
  size_t at = 0;
  for (size_t count = 0;; ++count) {
    rdm_piece piece{};
    int status = probe::foreign().pieces_next(&pieces, &piece);
    const bool is_end = status == RDM_OK && piece.length == 0;
    if (held.size() >= message.most && status != RDM_BUSY && !is_end) {
      verdict.broken("%s: status %d with all pieces out", message.name, status);
    }
    while (status == RDM_BUSY && !held.empty()) {
      give_back(pieces, held, count % 3 != 0);
      status = probe::foreign().pieces_next(&pieces, &piece);
    }
    if (status != RDM_OK) {
      verdict.broken("%s: at byte %zu: %d: %s", message.name, at, status,
                     probe::foreign().last_error());
      break;
    }
    if (piece.length == 0) break;
    if (!is_next(message, at, piece)) {
      verdict.broken("%s: the piece at byte %zu is another", message.name, at);
      break;
    }
    at += piece.length;
    transfer(device, message, piece);
    check_budget(message.name);
    held.push_back(piece);
  }
  while (!held.empty()) give_back(pieces, held, true);
  return at;
}

void send(probe::ForeignDevice& device, const Message& message) {
  probe::Content(++seed).fill(message.address, message.length);
  rdm_pieces pieces{};
  const int status = probe::foreign().pieces_begin(device.domain(), message.address, message.length,
                                                   message.piece_length, message.most, &pieces);
  if (status != RDM_OK) return verdict.broken("%s: begin: status %d", message.name, status);
  const uint64_t start = probe::now_ns();
  const size_t sent = walk(device, pieces, message);
  if (sent != message.length) {
    verdict.broken("%s: %zu bytes of %zu went through", message.name, sent, message.length);
  }
  rdm_piece end{};
  expect("after the end", probe::foreign().pieces_next(&pieces, &end), RDM_OK);
  if (end.length != 0) verdict.broken("%s: there is more after the end", message.name);
  printf("%s: %zu bytes, pieces of %zu, %u at a time: %lu us\n", message.name, message.length,
         message.piece_length, message.most, (probe::now_ns() - start) / 1000);
}

void check_messages(size_t length) {
  probe::ForeignDevice device(kMiB, {kBudget, 0, 0, 0, 0}, verdict);
  char* mapped = probe::map_pages(length);
  char* heap = static_cast<char*>(probe::grow(length));
  for (const unsigned most : {1u, 2u, 4u}) {
    send(device, {"a mapping", mapped, length, kMiB, most});
    send(device, {"a mapping with odd ends", mapped + 123, length - 1000, kMiB, most});
    send(device, {"memory of the window", heap + 5, length - 77, kMiB, most});
    send(device, {"small pieces", mapped + 1, 4 * kMiB, 5 * probe::kPage, most});
    send(device, {"less than a page", mapped + 4000, 90, kMiB, most});
  }
  send(device, {"a second time", mapped + 123, length - 1000, kMiB, 2});
  munmap(mapped, length);
}

// The only piece does not fit as a whole, so it is shortened.
void check_tight() {
  probe::ForeignDevice device(kMiB, {kMiB / 4, 0, 0, 0, 0}, verdict);
  char* mapped = probe::map_pages(8 * kMiB);
  send(device, {"pieces longer than the budget", mapped + 9, 8 * kMiB - 10, kMiB, 1});
  send(device, {"two pieces longer than the budget", mapped + 9, 8 * kMiB - 10, kMiB, 2});
  munmap(mapped, 8 * kMiB);
}

void check_rules() {
  probe::ForeignDevice device(kMiB, {kBudget, 0, 0, 0, 0}, verdict);
  const probe::ForeignLibrary& library = probe::foreign();
  char* mapped = probe::map_pages(8 * kMiB);
  rdm_pieces pieces{};
  rdm_piece piece{};
  if (library.pieces_begin(nullptr, mapped, kMiB, 0, 0, &pieces) != RDM_INVALID ||
      library.pieces_begin(device.domain(), mapped, kMiB, 0, 0, nullptr) != RDM_INVALID ||
      library.pieces_begin(device.domain(), mapped, SIZE_MAX, 0, 0, &pieces) != RDM_INVALID) {
    verdict.broken("bad arguments are not refused");
  }
  rdm_mr whole{};
  expect("the message as a whole", device.get(mapped, 8 * kMiB, &whole), RDM_OUT_OF_BUDGET);
  // The defaults: two pieces of 1 MiB.
  if (library.pieces_begin(device.domain(), mapped, 8 * kMiB, 0, 0, &pieces) != RDM_OK) {
    return verdict.broken("the defaults are refused");
  }
  rdm_piece first{};
  rdm_piece second{};
  expect("the first of two", library.pieces_next(&pieces, &first), RDM_OK);
  expect("the second of two", library.pieces_next(&pieces, &second), RDM_OK);
  expect("the third of two", library.pieces_next(&pieces, &piece), RDM_BUSY);
  if (first.length + second.length > kBudget) verdict.broken("more than the budget");
  expect("closing meanwhile", device.close(), RDM_BUSY);
  expect("giving one back", library.pieces_done(&pieces, &first), RDM_OK);
  expect("giving it back twice", library.pieces_done(&pieces, &first), RDM_INVALID);
  expect("giving the other back", library.pieces_done(&pieces, &second), RDM_OK);

  rdm_mr all{};
  expect("all of the budget to somebody else", device.get(mapped, kBudget, &all), RDM_OK);
  if (library.pieces_begin(device.domain(), mapped + 4 * kMiB, kMiB, 0, 0, &pieces) != RDM_OK) {
    verdict.broken("begin is refused");
  }
  expect("no room, and no piece to give back", library.pieces_next(&pieces, &piece),
         RDM_OUT_OF_BUDGET);
  expect("the budget back", device.put(all), RDM_OK);
  expect("room again", library.pieces_next(&pieces, &piece), RDM_OK);
  expect("giving it back", library.pieces_done(&pieces, &piece), RDM_OK);

  munmap(mapped + kMiB, kMiB);
  library.pieces_begin(device.domain(), mapped, 2 * kMiB, kMiB, 1, &pieces);
  expect("a piece before a hole", library.pieces_next(&pieces, &piece), RDM_OK);
  expect("giving it back", library.pieces_done(&pieces, &piece), RDM_OK);
  expect("a piece in a hole", library.pieces_next(&pieces, &piece), RDM_SYSTEM);
  if (device.close() != RDM_OK) verdict.broken("closing: %s", library.last_error());
}

}  // namespace

int main(int argc, char** argv) {
  const size_t length = probe::argument(argc, argv, 1, 64) * kMiB;
  (void)probe::foreign();
  const uint64_t before = probe::pinned_by_kernel();
  check_messages(length);
  check_tight();
  check_rules();
  if (!probe::comes_to(before, probe::pinned_by_kernel)) verdict.broken("pages stay pinned");
  return verdict.status();
}
