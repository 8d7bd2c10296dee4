// The packed trace file: a FileHeader, the program's name, and blocks until the end. A block is a
// BlockHeader and a separate zstd frame with zstd's checksum, so that nothing in a damaged block is
// trusted and everything before it can be read. Numbers are little-endian.
//
// A block's events are stored in columns, because sizes next to sizes compress better than sizes
// between times: first each column's length as a varint, then the columns.
//   heads       a byte for each event: its kind and which of the others it has an entry in
//   threads     varint, if not that of the previous event
//   times       varint of the time units since the previous event, if any
//   objects     zigzag varint of the distance from the previous event's object; not for
//               allocations, whose object is the lowest free number
//   sizes       varint; not for frees
//   alignments  a byte, if there is one
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "allocator/trace/event.h"

namespace rdmalloc::trace {

static_assert(std::endian::native == std::endian::little, "the file is written as it is in memory");

inline constexpr char kMagic[8] = {'r', 'd', 'm', 't', 'r', 'a', 'c', 'e'};
inline constexpr uint32_t kVersion = 1;
inline constexpr uint32_t kMostProgramSize = 4096;
inline constexpr uint64_t kTimeUnitNs = 1000;

struct FileHeader {
  char magic[sizeof kMagic] = {};
  uint32_t version = 0;
  uint32_t finished = 0;  // 0: the writer did not finish, and the counts are 0
  Counts counts;
  uint32_t program_size = 0;
  uint32_t reserved = 0;
  uint64_t checksum = 0;  // of this header, with 0 here, and of the name after it
};

struct BlockHeader {
  uint32_t events = 0;
  uint32_t raw_size = 0;
  uint32_t packed_size = 0;
};

enum Column : size_t {
  kHeads,
  kThreads,
  kTimes,
  kObjects,
  kSizes,
  kAlignments,
  kColumns,
};

inline constexpr uint8_t kKindBits = 3;  // of a head
inline constexpr uint8_t kHasThread = 4;
inline constexpr uint8_t kHasTime = 8;
inline constexpr uint8_t kHasAlignment = 16;
inline constexpr uint8_t kKnownBits = 31;

inline constexpr size_t kMostVarintSize = 10;
inline constexpr uint32_t kMostBlockEvents = 65536;
inline constexpr size_t kMostRawSize =
    kColumns * kMostVarintSize + kMostBlockEvents * (2 + 4 * kMostVarintSize);

// FNV-1a.
inline uint64_t checksum(const void* data, size_t size, uint64_t sum = 0xcbf29ce484222325) {
  const auto* bytes = static_cast<const uint8_t*>(data);
  for (size_t i = 0; i < size; ++i) sum = (sum ^ bytes[i]) * 0x100000001b3;
  return sum;
}

constexpr bool has_size(EventKind kind) { return kind != EventKind::kFree; }
constexpr bool makes_object(EventKind kind) {
  return kind == EventKind::kAllocate || kind == EventKind::kAllocateZeroed;
}

}  // namespace rdmalloc::trace
