// The recorder's output: one raw file for each process image. It is written through a shared
// mapping while the program runs, so that it survives any end of the program and nobody has to
// flush it. The packer (packer.h) reads it. All numbers are in the machine's format: a raw file is
// packed where it was made.
//
//   page 0    RawHeader
//   then      chunks of whole pages, each of one thread: a ChunkHeader, then units of 4 bytes
//
// The kernel takes longer to give a file a page than malloc takes, so a call takes few bytes:
//
//   [kTicks, kTime]  the time since the previous call: 4 bytes, or 8 with the stamp itself
//   kNearAllocate    4 bytes: a size below 1024, and the distance from the last address
//   kNearFree        4 bytes: the distance from the last address
//
// or, if that is not enough, 8 bytes that also begin with the kind: kind (4 bits), near (15 bits),
// address / 8 (45 bits), and 8 more of kMore for a size or an alignment. Without kMore `near` is
// the size, and the stamp is that of the previous call; with kMore, or if there is no size, `near`
// is the ticks since then. A call's event is written last. A unit of 0 was never written, or is the
// unused rest of a chunk.
#pragma once

#include <cstddef>
#include <cstdint>

#include "allocator/os/page_size.h"

namespace rdmalloc::trace {

inline constexpr uint64_t kRawMagic = 0x317761726d647264;  // "drdmraw1"
inline constexpr uint64_t kChunkMagic = 0x6b6e7568636d6472;
inline constexpr uint32_t kRawVersion = 1;
// The size of a thread's first chunk, and of the longest; each is twice the one before.
inline size_t first_chunk() { return os::page_size(); }
inline constexpr size_t kLongestChunk = size_t{256} << 10;
// The least that a process's file may be limited to: the header, and little or nothing else.
inline constexpr uint64_t kSmallestLimit = 64 << 10;

// Why recording ended before the process did.
enum class StopReason : uint32_t { kNone, kLimit, kNoSpace };

struct RawHeader {
  uint64_t magic;
  uint32_t version;
  uint32_t process;
  uint64_t start_ticks;  // of the recording
  uint64_t limit;        // most bytes that the file may have
  // Shared by all threads; atomic operations only.
  uint64_t taken;          // bytes given out, this page included; above the limit: all of it
  uint64_t dropped;        // calls not recorded
  uint64_t stopped_ticks;  // records after this are of some threads only; 0: recorded to the end
  uint32_t stopped;        // a StopReason
  uint32_t error;          // errno of it
  uint32_t threads;
  uint32_t program_size;  // bytes of program
  char executable[1024];  // its file; ended by a zero
  char program[2048];     // /proc/self/cmdline, as much as fits
};
static_assert(sizeof(RawHeader) <= 4096);  // the smallest page

enum class RawKind : uint8_t {
  kNone,
  kAllocate,        // stamped after it returned
  kAllocateZeroed,  // likewise
  kFree,            // stamped before it is called
  kResizeBegin,     // stamped before: the old address, which others may get from here on
  kResizeEnd,       // by the same thread, stamped after: the new one, always with kMore
  kTime,
  kMore,
  kNearAllocate,
  kNearFree,
  kTicks
};

// In a kMore, in place of an alignment: the resize was refused, and the object is unchanged.
inline constexpr uint64_t kRefused = 63;

inline constexpr unsigned kKindBits = 4;
inline constexpr unsigned kNearBits = 15;
inline constexpr uint64_t kNearEnd = uint64_t{1} << kNearBits;
inline constexpr unsigned kAlignmentBits = 6;

constexpr uint64_t raw_event(RawKind kind, uint64_t near, uint64_t address) {
  return static_cast<uint64_t>(kind) | near << kKindBits | address >> 3 << (kKindBits + kNearBits);
}
constexpr uint64_t raw_more(uint64_t alignment_log2, uint64_t size) {
  return static_cast<uint64_t>(RawKind::kMore) | alignment_log2 << kKindBits |
         size << (kKindBits + kAlignmentBits);
}
constexpr uint64_t raw_time(uint64_t stamp) {
  return static_cast<uint64_t>(RawKind::kTime) | stamp << kKindBits;
}

constexpr RawKind raw_kind(uint64_t word) { return static_cast<RawKind>(word & 15); }
constexpr uint64_t raw_near(uint64_t word) { return word >> kKindBits & (kNearEnd - 1); }
constexpr uint64_t raw_address(uint64_t word) { return word >> (kKindBits + kNearBits) << 3; }
constexpr uint64_t raw_alignment(uint64_t more) {
  return more >> kKindBits & ((1 << kAlignmentBits) - 1);
}
constexpr uint64_t raw_size(uint64_t more) { return more >> (kKindBits + kAlignmentBits); }
constexpr uint64_t raw_stamp(uint64_t time) { return time >> kKindBits; }

// In units of kDistance bytes, signed, from the address of the previous call; from 0 at the
// beginning of a chunk.
inline constexpr unsigned kDistance = 16;
inline constexpr unsigned kNearSizeBits = 10;
inline constexpr unsigned kAllocateDistanceBits = 32 - kKindBits - kNearSizeBits;
inline constexpr unsigned kFreeDistanceBits = 32 - kKindBits;
inline constexpr uint64_t kTicksEnd = uint64_t{1} << (32 - kKindBits);

// Whether a distance fits into this many bits.
constexpr bool is_near(int64_t distance, unsigned bits) {
  const int64_t end = int64_t{1} << (bits - 1);
  return distance >= -end && distance < end;
}
constexpr uint32_t raw_near_allocate(uint64_t size, int64_t distance) {
  return static_cast<uint32_t>(static_cast<uint64_t>(RawKind::kNearAllocate) | size << kKindBits |
                               static_cast<uint64_t>(distance) << (kKindBits + kNearSizeBits));
}
constexpr uint32_t raw_near_free(int64_t distance) {
  return static_cast<uint32_t>(static_cast<uint64_t>(RawKind::kNearFree) |
                               static_cast<uint64_t>(distance) << kKindBits);
}
constexpr uint32_t raw_ticks(uint64_t ticks) {
  return static_cast<uint32_t>(static_cast<uint64_t>(RawKind::kTicks) | ticks << kKindBits);
}
constexpr uint64_t raw_near_size(uint32_t unit) {
  return unit >> kKindBits & ((1U << kNearSizeBits) - 1);
}
// For a near allocation or a near free.
constexpr int64_t raw_distance(uint32_t unit) {
  const auto number = static_cast<int32_t>(unit);
  return raw_kind(unit) == RawKind::kNearFree ? number >> kKindBits
                                              : number >> (kKindBits + kNearSizeBits);
}

struct ChunkHeader {
  uint64_t magic;
  uint32_t thread;
  uint32_t bytes;  // of the chunk, including this header
  uint64_t stamp;  // stands for the call before the first
};
inline constexpr size_t kChunkHeaderUnits = sizeof(ChunkHeader) / sizeof(uint32_t);

}  // namespace rdmalloc::trace
