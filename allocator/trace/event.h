// The contents of an allocation trace: a program's calls of the malloc family, in the order in
// which they happened.
#pragma once

#include <cstdint>

namespace rdmalloc::trace {

enum class EventKind : uint8_t { kAllocate, kAllocateZeroed, kResize, kFree };

struct Event {
  EventKind kind = EventKind::kAllocate;
  uint32_t thread = 0;         // 0, 1, 2 ... in order of first appearance
  uint64_t time_ns = 0;        // since the recording began, never decreasing
  uint64_t object = 0;         // small dense number; used again after its free, lowest first
  uint64_t size = 0;           // bytes requested; for a resize the new size; for a free 0
  uint8_t alignment_log2 = 0;  // 0: malloc's default
};

// The totals of a trace.
struct Counts {
  uint64_t events = 0;
  uint64_t threads = 0;
  uint64_t objects = 0;     // most live at once
  uint64_t peak_bytes = 0;  // most bytes requested and live at once
  uint64_t duration_ns = 0;
};

// Limits that no real program reaches but a damaged file may claim. Objects: live at once.
inline constexpr uint64_t kMostObjects = uint64_t{1} << 28;
inline constexpr uint32_t kMostThreads = 1 << 20;
inline constexpr uint64_t kMostBytes = uint64_t{1} << 47;
inline constexpr uint64_t kMostTime = uint64_t{1} << 62;
inline constexpr uint8_t kMostAlignmentLog2 = 40;

}  // namespace rdmalloc::trace
