#include "regcache/domain/region_mrs.h"

#include <algorithm>

namespace rdmalloc {
namespace {

// Keeps the pieces that there are, all but the last of `count`. The smaller array stays mapped:
// whoever looks for a key may be reading it.
bool make_room_for_pieces(KeyEntry& entry, size_t count) {
  if (entry.piece_room >= count) return true;
  const size_t bytes = os::page_ceil(2 * count * sizeof(Piece));
  void* memory = os::map_metadata(bytes);
  if (memory == nullptr) return false;
  auto* const pieces = static_cast<Piece*>(memory);
  std::copy_n(entry.piece, count - 1, pieces);
  entry.piece = pieces;
  entry.piece_room = static_cast<uint32_t>(bytes / sizeof(Piece));
  return true;
}

}  // namespace

void RegionMrs::bind(Device* device, Complaints* complaints, const RegionSource* source,
                     DomainCounters* counters, const ForeignCache* foreign) {
  device_ = device;
  complaints_ = complaints;
  source_ = source;
  counters_ = counters;
  foreign_ = foreign;
}

bool RegionMrs::takes(const Region& region) const {
  if (rights_.exposed_only && !region.exposed) return false;
  return region.kind == RegionKind::kPinned || device_->has(RDM_BACKEND_ON_DEMAND);
}

// Visits the ranges between holes, cut to the maximum length of a registration. A hole that is
// mended while it is being visited remains a gap: two ranges that meet for another reason than the
// device's limits would leave a buffer across both without a key, and no sign of why.
template <typename Visit>
void RegionMrs::for_each_piece(const Region& region, size_t length, Visit visit) const {
  const PageMarks* const marks = source_->marks();
  const uintptr_t end = region.base + length;
  for (uintptr_t from = region.base; from < end;) {
    uintptr_t to = end;
    if (marks != nullptr) {
      from = os::align_up(marks->first_whole(from, end), device_->limits().alignment);
      if (from >= end) return;
      to = marks->first_hole(from, end);
    }
    const uintptr_t next = to + os::page_size();
    to = os::align_down(to, device_->limits().alignment);
    for (; from < to; from += device_->limits().max_length) {
      const size_t bytes =
          to - from < device_->limits().max_length ? to - from : device_->limits().max_length;
      if (!visit(from - region.base, bytes)) return;
      if (bytes < device_->limits().max_length) break;
    }
    from = next;
  }
}

size_t RegionMrs::count_pieces(const Region& region) const {
  size_t count = 0;
  for_each_piece(region, length_of(region), [&](size_t, size_t) { return ++count != 0; });
  return count;
}

int RegionMrs::register_region(const Region& region, KeyEntry& entry) {
  const size_t length = length_of(region);
  const bool is_whole = length <= device_->limits().max_length && !has_hole(region, length);
  return is_whole ? register_whole(region, entry, length) : register_pieces(region, entry, length);
}

bool RegionMrs::has_hole(const Region& region, size_t length) const {
  const PageMarks* const marks = source_->marks();
  return marks != nullptr && length != 0 && marks->has_hole(region.base, length);
}

int RegionMrs::register_whole(const Region& region, KeyEntry& entry, size_t length) {
  if (length == 0) return RDM_OK;  // below the device's alignment
  rdm_backend_key key{};
  const int status = register_or_say(region, 0, length, &key);
  if (status == RDM_OK) entry.publish(region.base, length, key);
  return status;
}

// Holes may appear meanwhile and make more pieces: how many there are is known at the end.
int RegionMrs::register_pieces(const Region& region, KeyEntry& entry, size_t length) {
  int status = RDM_OK;
  size_t done = 0;
  bool is_short = false;
  entry.set_short(false);
  for_each_piece(region, length, [&](size_t offset, size_t bytes) {
    if (!make_room_for_pieces(entry, done + 1)) {
      complaints_->say("no memory for bookkeeping");
      status = RDM_SYSTEM;
      return false;
    }
    Piece& piece = entry.piece[done];
    piece = {offset, 0, {}};
    status = register_or_say(region, offset, bytes, &piece.key);
    if (status == RDM_OK) piece.length = bytes;
    // The device has as many MRs as it may: the region does without this piece until some are given
    // back, unless foreign memory holds some of them.
    if (status == RDM_NOT_REGISTERED && done != 0 && !is_crowded()) {
      is_short = true;
      status = RDM_OK;
    }
    if (status == RDM_OK) ++done;
    return status == RDM_OK;
  });
  if (status != RDM_OK) {
    while (done-- > 0) (void)deregister_piece(region, entry.piece[done], false);
    return status;
  }
  entry.pieces = static_cast<uint32_t>(done);
  entry.set_short(is_short);
  return RDM_OK;
}

int RegionMrs::register_rest(const Region& region, KeyEntry& entry) {
  int status = RDM_OK;
  uint32_t next = 0;
  for_each_piece(region, length_of(region), [&](size_t offset, size_t bytes) {
    while (next < entry.pieces && entry.piece[next].offset < offset) ++next;
    if (next == entry.pieces) return false;
    Piece& piece = entry.piece[next];
    // A hole that appeared since may begin pieces elsewhere: the region does without those.
    if (piece.offset != offset || piece.length != 0) return true;
    status = register_or_say(region, offset, bytes, &piece.key);
    if (status == RDM_OK) __atomic_store_n(&piece.length, bytes, __ATOMIC_RELEASE);
    return status == RDM_OK;
  });
  return status;
}

int RegionMrs::register_or_say(const Region& region, size_t offset, size_t length,
                               rdm_backend_key* key) {
  char why[Complaints::kLongest] = {};
  const size_t retired = region.retired();
  int status = register_range(region, offset, length, key, why, sizeof why);
  // It is retried without the pages that were lost meanwhile.
  if (region.retired() != retired) why[0] = '\0';
  // If the heap overlaps existing registrations, that is a failure like any other.
  if (status == RDM_BACKEND_OVERLAPS) status = RDM_SYSTEM;
  if (why[0] != '\0') complaints_->say(why);
  return status;
}

int RegionMrs::register_range(const Region& region, size_t offset, size_t length,
                              rdm_backend_key* key, char* why, size_t why_size) {
  const int status = device_->register_memory(request_for(region, offset, length),
                                              charges_for(region), 0, key, why, why_size);
  if (status == RDM_OK) {
    counters_->registrations.fetch_add(1, std::memory_order_relaxed);
    counters_->registered_bytes.fetch_add(length, std::memory_order_relaxed);
  }
  return status;
}

int RegionMrs::deregister_piece(const Region& region, const Piece& piece, bool may_ask_again) {
  if (piece.length == 0) return RDM_OK;
  const int status =
      device_->deregister_memory(piece.length, charges_for(region), piece.key, may_ask_again);
  if (status != RDM_BACKEND_LATER || !may_ask_again) {
    counters_->registered_bytes.fetch_sub(piece.length, std::memory_order_relaxed);
  }
  return status;
}

rdm_backend_request RegionMrs::request_for(const Region& region, size_t offset,
                                           size_t length) const {
  rdm_backend_request request{};
  request.base = reinterpret_cast<void*>(region.base + offset);
  request.length = length;
  const bool is_hugetlb = region.page_kind == os::PageKind::kHugetlb;
  request.page_size = os::page_size_of(is_hugetlb ? region.page_kind : os::PageKind::kBase);
  request.access = access(region.exposed);
  request.pinned = region.kind == RegionKind::kPinned ? 1 : 0;
  request.exposed = region.exposed ? 1 : 0;
  request.node = region.node;
  return request;
}

}  // namespace rdmalloc
