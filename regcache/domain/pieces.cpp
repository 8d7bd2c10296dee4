// rdm_pieces: a message whose pieces are registered one at a time, when they are needed. Built on
// rdm_get and rdm_put alone; all state is in the caller's struct.
#include "allocator/last_error.h"
#include "allocator/os/memory.h"
#include "include/rdmalloc/rdmalloc.h"
#include "regcache/domain/domain.h"

namespace rdmalloc {
namespace {

constexpr size_t kDefaultLength = size_t{1} << 20;
constexpr unsigned kDefaultMost = 2;

Domain* domain_of(const rdm_pieces& pieces) { return reinterpret_cast<Domain*>(pieces.domain); }

// Up to the next multiple of the piece length, or to the end.
size_t next_length(const rdm_pieces& pieces) {
  const size_t room =
      pieces.piece_length - reinterpret_cast<uintptr_t>(pieces.next) % pieces.piece_length;
  const auto rest = static_cast<size_t>(pieces.end - pieces.next);
  return rest < room ? rest : room;
}

// If a device's limits split the region into several memory regions, takes as much of the piece as
// lies in the first.
int get_in_one(const rdm_pieces& pieces, size_t* length, rdm_mr* mr) {
  const int status = Domain::get(domain_of(pieces), pieces.next, *length, mr);
  if (status != RDM_NOT_REGISTERED) return status;
  if (Domain::lookup(domain_of(pieces), pieces.next, 1, mr) != RDM_OK) return status;
  const auto into = static_cast<size_t>(pieces.next - static_cast<char*>(mr->base));
  const size_t rest = mr->length - into;
  // A missing memory region is not the reason, so a shorter piece does not help.
  if (rest >= *length) return status;
  *length = rest;
  return RDM_OK;
}

// A piece of half the length may succeed.
bool may_be_too_long(int status) {
  return status == RDM_OUT_OF_BUDGET || status == RDM_UNSUPPORTED;
}

int take_next(rdm_pieces* pieces, rdm_piece* out) {
  const size_t before = pieces->piece_length;
  for (;;) {
    size_t length = next_length(*pieces);
    rdm_mr mr{};
    const int status = get_in_one(*pieces, &length, &mr);
    if (status == RDM_OK) {
      *out = {pieces->next, length, mr};
      pieces->next += length;
      ++pieces->held;
      return status;
    }
    if (status == RDM_OUT_OF_BUDGET && pieces->held != 0) {
      return fail(RDM_BUSY,
                  "there is no room to register another piece: give one back with "
                  "rdm_pieces_done, then ask again");
    }
    if (!may_be_too_long(status) || pieces->piece_length <= os::page_size()) {
      // The length was not the reason.
      pieces->piece_length = before;
      return status;
    }
    pieces->piece_length = os::page_ceil(pieces->piece_length / 2);
  }
}

int begin(rdm_domain* domain, const void* address, size_t length, size_t piece_length,
          unsigned most, rdm_pieces* out) {
  if (domain == nullptr || out == nullptr) {
    return fail(RDM_INVALID, "the domain, or the place for the pieces, is null");
  }
  if (length == 0) return fail(RDM_INVALID, "the message has no bytes");
  if (length > UINTPTR_MAX - reinterpret_cast<uintptr_t>(address)) {
    return fail(RDM_INVALID, "the message wraps around the end of the address space");
  }
  const size_t rounded = os::page_ceil(piece_length == 0 ? kDefaultLength : piece_length);
  if (rounded == 0) return fail(RDM_INVALID, "the length of a piece is out of range");
  auto* const first = static_cast<char*>(const_cast<void*>(address));
  *out = {domain, first, first + length, rounded, most == 0 ? kDefaultMost : most, 0};
  return RDM_OK;
}

int next(rdm_pieces* pieces, rdm_piece* out) {
  if (pieces == nullptr || out == nullptr) {
    return fail(RDM_INVALID, "the pieces, or the place for the next, is null");
  }
  if (pieces->next == pieces->end) {
    *out = {};
    return RDM_OK;
  }
  if (pieces->domain == nullptr || pieces->piece_length == 0) {
    return fail(RDM_INVALID, "rdm_pieces_begin did not succeed with these");
  }
  if (pieces->held >= pieces->most) {
    return fail(RDM_BUSY,
                "as many pieces are out as may be: give one back with rdm_pieces_done, then ask "
                "again");
  }
  return take_next(pieces, out);
}

int done(rdm_pieces* pieces, const rdm_piece* piece) {
  if (pieces == nullptr || piece == nullptr) {
    return fail(RDM_INVALID, "the pieces, or the one that is given back, is null");
  }
  if (pieces->held == 0 || piece->length == 0) {
    return fail(RDM_INVALID, "no such piece is out: it was given back already, or is the end");
  }
  const int status = Domain::put(domain_of(*pieces), &piece->mr);
  if (status == RDM_OK) --pieces->held;
  return status;
}

}  // namespace
}  // namespace rdmalloc

extern "C" {

int rdm_pieces_begin(rdm_domain* domain, const void* address, size_t length, size_t piece_length,
                     unsigned most, rdm_pieces* out) {
  return rdmalloc::begin(domain, address, length, piece_length, most, out);
}

int rdm_pieces_next(rdm_pieces* pieces, rdm_piece* out) { return rdmalloc::next(pieces, out); }

int rdm_pieces_done(rdm_pieces* pieces, const rdm_piece* piece) {
  return rdmalloc::done(pieces, piece);
}

}  // extern "C"
