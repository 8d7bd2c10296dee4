#include "allocator/trace/raw_stream.h"

#include <algorithm>

namespace rdmalloc::trace {
namespace {

constexpr size_t kAtOnce = 2048;  // units
constexpr size_t kWord = 2;       // units

}  // namespace

bool RawStream::begin_chunk() {
  if (chunk_ == chunks_.size()) return false;
  stamp_ = std::max(stamp_, chunks_[chunk_].stamp);
  address_ = 0;
  ++chunk_;
  next_ = 0;
  held_.clear();
  at_ = 0;
  return true;
}

bool RawStream::hold(size_t units) {
  if (held_.size() - at_ >= units) return true;
  if (chunk_ == 0) return false;
  held_.erase(held_.begin(), held_.begin() + static_cast<ptrdiff_t>(at_));
  at_ = 0;
  const size_t kept = held_.size();
  held_.resize(kept + kAtOnce);
  const size_t got = file_.read(chunks_[chunk_ - 1], next_, held_.data() + kept, kAtOnce);
  next_ += got;
  held_.resize(kept + got);
  return held_.size() >= units;
}

uint64_t RawStream::word() const {
  return held_[at_] | static_cast<uint64_t>(held_[at_ + 1]) << 32;
}

void RawStream::step() {
  call_ = RawCall{};
  while (at_end()) {
    if (!hold(1)) {
      if (!begin_chunk()) return;
      continue;
    }
    const uint32_t unit = held_[at_];
    if (unit == 0) {
      ++at_;  // never written
    } else {
      take(raw_kind(unit), unit);
    }
  }
}

void RawStream::take(RawKind kind, uint32_t unit) {
  if (kind == RawKind::kTicks) {
    stamp_ += unit >> kKindBits;
    ++at_;
  } else if (kind == RawKind::kNearAllocate || kind == RawKind::kNearFree) {
    const bool frees = kind == RawKind::kNearFree;
    address_ += static_cast<uint64_t>(raw_distance(unit) * kDistance);
    call_.kind = frees ? RawKind::kFree : RawKind::kAllocate;
    call_.address = address_;
    call_.size = frees ? 0 : raw_near_size(unit);
    call_.stamp = stamp_;
    ++at_;
  } else if (kind == RawKind::kNone || kind > RawKind::kTicks || !hold(kWord)) {
    ++damaged_;
    ++at_;
  } else {
    const uint64_t whole = word();
    at_ += kWord;
    if (kind == RawKind::kTime) {
      stamp_ = std::max(stamp_, raw_stamp(whole));
    } else if (kind == RawKind::kMore) {
      ++damaged_;
    } else {
      decode(whole);
    }
  }
}

void RawStream::decode(uint64_t event) {
  address_ = raw_address(event);
  call_.kind = raw_kind(event);
  call_.address = address_;
  const bool has_size = call_.kind != RawKind::kFree && call_.kind != RawKind::kResizeBegin;
  const bool has_more = has_size && hold(kWord) && raw_kind(held_[at_]) == RawKind::kMore;
  if (has_size && !has_more) {
    call_.size = raw_near(event);
  } else {
    stamp_ += raw_near(event);
  }
  if (has_more) {
    const uint64_t more = word();
    at_ += kWord;
    call_.size = raw_size(more);
    call_.refused = raw_alignment(more) == kRefused;
    call_.alignment_log2 = call_.refused ? 0 : static_cast<uint8_t>(raw_alignment(more));
  }
  call_.stamp = stamp_;
}

}  // namespace rdmalloc::trace
