#include "allocator/trace/packer.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <queue>
#include <unordered_map>

#include "allocator/trace/raw_stream.h"

namespace rdmalloc::trace {
namespace {

struct Object {
  uint64_t number = 0;
  uint64_t size = 0;
};

class Packer {
 public:
  Packer(const RawFile& raw, double ns_per_tick, Writer& writer)
      : header_(raw.header()), ns_per_tick_(ns_per_tick), writer_(writer) {
    for (const auto& [thread, chunks] : raw.threads()) streams_.emplace_back(raw, thread, chunks);
    pending_.resize(streams_.size());
  }

  Packed run();

 private:
  struct Head {
    uint64_t stamp = 0;
    size_t stream = 0;
    bool operator>(const Head& other) const {
      return stamp != other.stamp ? stamp > other.stamp : stream > other.stream;
    }
  };

  void enqueue(size_t stream);
  bool must_wait(size_t stream, const RawCall& call);
  void wake(uint64_t address);
  void give_up_waiting(uint64_t now);
  void take_head(size_t stream);
  void take(size_t stream, const RawCall& call);
  void allocate(size_t stream, const RawCall& call);
  void release(size_t stream, const RawCall& call);
  void begin_resize(size_t stream, const RawCall& call);
  void end_resize(size_t stream, const RawCall& call);
  void close_resize(size_t stream, uint64_t stamp);
  void emit(size_t stream, uint64_t stamp, EventKind kind, uint64_t number, uint64_t size,
            uint8_t alignment = 0);

  const RawHeader& header_;
  const double ns_per_tick_;
  Writer& writer_;
  std::vector<RawStream> streams_;
  std::priority_queue<Head, std::vector<Head>, std::greater<>> heads_;
  // Streams that wait, by address: their next call gives out an address that is still live, or
  // gives back one that is not.
  std::unordered_multimap<uint64_t, Head> waiting_;
  std::unordered_map<uint64_t, Object> live_;  // by address
  struct Pending {
    bool open = false;
    std::optional<Object> object;  // none: allocated outside the recording
    uint64_t address = 0;
  };
  std::vector<Pending> pending_;  // resizes in progress, by stream
  uint64_t numbers_ = 0;
  uint64_t latest_ns_ = 0;
  Packed packed_;
};

// The counter may be read a little early (ticks.h): while the processor waits to learn from another
// that an address was given back or handed out, it may already have read the counter. So a call
// waits this many ticks for the other thread's call.
constexpr uint64_t kMostEarly = 1 << 20;

bool gives_out(RawKind kind) {
  return kind == RawKind::kAllocate || kind == RawKind::kAllocateZeroed ||
         kind == RawKind::kResizeEnd;
}

void Packer::enqueue(size_t stream) {
  if (!streams_[stream].at_end()) heads_.push({streams_[stream].head().stamp, stream});
}

bool Packer::must_wait(size_t stream, const RawCall& call) {
  if (streams_.size() == 1 || call.refused) return false;
  const bool is_live = live_.contains(call.address);
  if (gives_out(call.kind) != is_live) return false;
  waiting_.emplace(call.address, Head{call.stamp, stream});
  return true;
}

void Packer::wake(uint64_t address) {
  const auto [first, last] = waiting_.equal_range(address);
  for (auto one = first; one != last; ++one) heads_.push(one->second);
  waiting_.erase(first, last);
}

// Takes the calls that have waited long enough as they are.
void Packer::give_up_waiting(uint64_t now) {
  for (auto one = waiting_.begin(); one != waiting_.end();) {
    const Head head = one->second;
    if (now <= head.stamp || now - head.stamp < kMostEarly) {
      ++one;
      continue;
    }
    waiting_.erase(one);
    take_head(head.stream);
    one = waiting_.begin();
  }
}

void Packer::take_head(size_t stream) {
  take(stream, streams_[stream].head());
  streams_[stream].step();
  enqueue(stream);
}

Packed Packer::run() {
  for (size_t stream = 0; stream < streams_.size(); ++stream) enqueue(stream);
  while (!heads_.empty() || !waiting_.empty()) {
    if (heads_.empty()) {
      give_up_waiting(std::numeric_limits<uint64_t>::max());
      continue;
    }
    const Head head = heads_.top();
    heads_.pop();
    if (!waiting_.empty()) give_up_waiting(head.stamp);
    if (!must_wait(head.stream, streams_[head.stream].head())) take_head(head.stream);
  }
  for (size_t stream = 0; stream < streams_.size(); ++stream) close_resize(stream, 0);
  packed_.live_objects = live_.size();
  for (const auto& [address, object] : live_) packed_.live_bytes += object.size;
  for (const RawStream& stream : streams_) packed_.damaged += stream.damaged();
  packed_.header = writer_.finish();
  return packed_;
}

void Packer::take(size_t stream, const RawCall& call) {
  ++packed_.calls;
  if (header_.stopped_ticks != 0 && call.stamp > header_.stopped_ticks) {
    ++packed_.after_stop;
    return;
  }
  const RawKind kind = call.kind;
  if (call.size > kMostBytes) {
    ++packed_.damaged;
  } else if (kind == RawKind::kAllocate || kind == RawKind::kAllocateZeroed) {
    allocate(stream, call);
  } else if (kind == RawKind::kFree) {
    release(stream, call);
  } else if (kind == RawKind::kResizeBegin) {
    begin_resize(stream, call);
  } else if (kind == RawKind::kResizeEnd) {
    end_resize(stream, call);
  } else {
    ++packed_.damaged;
  }
}

void Packer::emit(size_t stream, uint64_t stamp, EventKind kind, uint64_t number, uint64_t size,
                  uint8_t alignment) {
  const uint64_t ticks = stamp > header_.start_ticks ? stamp - header_.start_ticks : 0;
  constexpr double kLatestNs = static_cast<double>(kMostTime) / 2;
  const double ns = std::min(static_cast<double>(ticks) * ns_per_tick_, kLatestNs);
  latest_ns_ = std::max(latest_ns_, static_cast<uint64_t>(ns));
  writer_.add({kind, streams_[stream].thread(), latest_ns_, number, size, alignment});
}

void Packer::allocate(size_t stream, const RawCall& call) {
  const uint64_t address = call.address;
  const Object object{numbers_++, call.size};
  const auto [place, fresh] = live_.try_emplace(address, object);
  if (!fresh) {
    ++packed_.missing;
    emit(stream, call.stamp, EventKind::kFree, place->second.number, 0);
    place->second = object;
  }
  const bool zeroed = call.kind == RawKind::kAllocateZeroed;
  wake(address);
  emit(stream, call.stamp, zeroed ? EventKind::kAllocateZeroed : EventKind::kAllocate,
       object.number, call.size, call.alignment_log2);
}

void Packer::release(size_t stream, const RawCall& call) {
  const uint64_t address = call.address;
  const auto found = live_.find(address);
  if (found == live_.end()) {
    ++packed_.unmatched;
    return;
  }
  emit(stream, call.stamp, EventKind::kFree, found->second.number, 0);
  live_.erase(found);
  wake(address);
}

void Packer::begin_resize(size_t stream, const RawCall& call) {
  close_resize(stream, call.stamp);
  Pending& pending = pending_[stream];
  pending.open = true;
  pending.address = call.address;
  const auto found = live_.find(pending.address);
  pending.object.reset();
  if (found == live_.end()) return;
  pending.object = found->second;
  live_.erase(found);
  wake(pending.address);
}

void Packer::end_resize(size_t stream, const RawCall& call) {
  Pending& pending = pending_[stream];
  const bool known = pending.open && pending.object.has_value();
  pending.open = false;
  if (call.refused) {
    if (known) live_[pending.address] = *pending.object;
    wake(pending.address);
    return;
  }
  if (!known) {
    ++packed_.unmatched;
    allocate(stream, call);
    return;
  }
  const auto [place, fresh] = live_.try_emplace(call.address, Object{});
  if (!fresh) {
    ++packed_.missing;
    emit(stream, call.stamp, EventKind::kFree, place->second.number, 0);
  }
  place->second = {pending.object->number, call.size};
  emit(stream, call.stamp, EventKind::kResize, pending.object->number, call.size);
  wake(call.address);
}

// A resize that begins and does not end: it was a resize to nothing, which freed the object, or the
// process ended during it.
void Packer::close_resize(size_t stream, uint64_t stamp) {
  Pending& pending = pending_[stream];
  if (!pending.open) return;
  pending.open = false;
  if (!pending.object.has_value()) {
    ++packed_.unmatched;
    return;
  }
  emit(stream, stamp, EventKind::kFree, pending.object->number, 0);
}

}  // namespace

Packed pack(const RawFile& raw, double ns_per_tick, Writer& writer) {
  return Packer(raw, ns_per_tick, writer).run();
}

}  // namespace rdmalloc::trace
