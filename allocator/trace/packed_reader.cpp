// Needed to give the decompressor memory of our own.
#define ZSTD_STATIC_LINKING_ONLY
#include "allocator/trace/packed_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "allocator/trace/own_memory.h"

namespace rdmalloc::trace {
namespace {

constexpr size_t kPackedCapacity = ZSTD_COMPRESSBOUND(kMostRawSize);

size_t workspace_size() { return os::page_ceil(ZSTD_estimateDCtxSize()); }
size_t buffers_size() {
  return workspace_size() + os::page_ceil(kPackedCapacity) + os::page_ceil(kMostRawSize);
}

int64_t from_zigzag(uint64_t coded) {
  return static_cast<int64_t>(coded >> 1) ^ -static_cast<int64_t>(coded & 1);
}

}  // namespace

PackedReader::~PackedReader() {
  if (buffers_ != nullptr) unmap_own(buffers_, buffers_size());
  if (fd_ >= 0) close(fd_);
}

bool PackedReader::fail(const char* format, ...) {
  const auto prefix = static_cast<size_t>(snprintf(error_, sizeof error_, "%.256s: ", path_));
  va_list arguments;
  va_start(arguments, format);
  // NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): it misses the va_start above
  vsnprintf(error_ + prefix, sizeof error_ - prefix, format, arguments);
  va_end(arguments);
  return false;
}

bool PackedReader::fail_at_event(const char* what) {
  return fail("event %llu %s: the trace is damaged, and cannot be used from there on",
              static_cast<unsigned long long>(events_read_), what);
}

bool PackedReader::open(const char* path) {
  path_ = path;
  // Opening a pipe without a writer must not hang; anything but a regular file is refused below.
  fd_ = ::open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat status {};
  if (fd_ < 0 || fstat(fd_, &status) != 0) return fail("%s", strerror(errno));
  if (S_ISDIR(status.st_mode)) return fail("is a folder, not a trace");
  if (!S_ISREG(status.st_mode)) return fail("is not a regular file");
  return check_header() && map_buffers();
}

bool PackedReader::map_buffers() {
  buffers_ = static_cast<uint8_t*>(map_own(buffers_size()));
  if (buffers_ == nullptr || !numbers_.start()) return fail("there is no memory to read it");
  zstd_ = ZSTD_initStaticDCtx(buffers_, workspace_size());
  if (zstd_ == nullptr) return fail("this zstd cannot unpack in memory that it is given");
  packed_ = buffers_ + workspace_size();
  raw_ = packed_ + os::page_ceil(kPackedCapacity);
  return true;
}

bool PackedReader::check_header() {
  size_t got = 0;
  if (!read_all(&header_, sizeof header_, &got)) return false;
  if (got < sizeof header_.magic || memcmp(header_.magic, kMagic, sizeof kMagic) != 0) {
    return fail("is not a trace: see rdmalloc trace record, or trace import for text");
  }
  if (got >= offsetof(FileHeader, finished) && header_.version != kVersion) {
    return fail("is a trace of version %u, and this rdmalloc reads version %u", header_.version,
                kVersion);
  }
  if (got < sizeof header_) return fail("ends within its header: nothing can be read from it");
  if (header_.program_size > kMostProgramSize) return fail("its header is damaged");
  if (!read_all(program_, header_.program_size, &got)) return false;
  if (got < header_.program_size) {
    return fail("ends within its header: nothing can be read from it");
  }
  const uint64_t written = header_.checksum;
  header_.checksum = 0;
  if (checksum(program_, got, checksum(&header_, sizeof header_)) != written) {
    return fail("its header is damaged");
  }
  const Counts& counts = header_.counts;
  if (counts.objects > kMostObjects || counts.objects > counts.events ||
      counts.threads > kMostThreads || counts.threads > counts.events) {
    return fail("its header is damaged: no trace has so many objects or threads");
  }
  return true;
}

bool PackedReader::read_all(void* into, size_t size, size_t* got) {
  auto* bytes = static_cast<uint8_t*>(into);
  *got = 0;
  while (*got < size) {
    const ssize_t part = read(fd_, bytes + *got, size - *got);
    if (part < 0 && errno == EINTR) continue;
    if (part < 0) return fail("%s", strerror(errno));
    if (part == 0) break;
    *got += static_cast<size_t>(part);
  }
  return true;
}

bool PackedReader::rewind() {
  if (lseek(fd_, static_cast<off_t>(sizeof header_ + header_.program_size), SEEK_SET) < 0) {
    return fail("%s", strerror(errno));
  }
  if (!numbers_.start()) return fail("there is no memory to read it");
  columns_ = {};
  events_read_ = time_ = object_ = 0;
  thread_ = threads_seen_ = 0;
  truncated_ = false;
  error_[0] = 0;
  return true;
}

bool PackedReader::end_of_file() {
  truncated_ = header_.finished == 0 || events_read_ < header_.counts.events;
  return false;
}

bool PackedReader::next_block() {
  BlockHeader block;
  size_t got = 0;
  if (!read_all(&block, sizeof block, &got)) return false;
  if (got == 0) return end_of_file();
  if (header_.finished != 0 && events_read_ >= header_.counts.events) {
    return fail("goes on after its last event: it is damaged");
  }
  if (got == sizeof block && !check_block(block)) return false;
  const size_t wanted = got == sizeof block ? block.packed_size : 0;
  if (wanted != 0 && !read_all(packed_, wanted, &got)) return false;
  if (wanted == 0 || got < wanted) {
    truncated_ = true;
    return false;
  }
  return unpack(block) && split_columns(block);
}

bool PackedReader::check_block(const BlockHeader& block) {
  const uint64_t after = events_read_ + block.events;
  if (block.events == 0 || block.events > kMostBlockEvents || block.raw_size > kMostRawSize ||
      block.packed_size == 0 || block.packed_size > kPackedCapacity ||
      (header_.finished != 0 && after > header_.counts.events)) {
    return fail_at_event("begins a block that no trace has");
  }
  return true;
}

bool PackedReader::unpack(const BlockHeader& block) {
  const size_t size = ZSTD_decompressDCtx(zstd_, raw_, block.raw_size, packed_, block.packed_size);
  if (ZSTD_isError(size) || size != block.raw_size) return fail_at_event("is in a broken block");
  return true;
}

bool PackedReader::split_columns(const BlockHeader& block) {
  columns_[kHeads] = {raw_, raw_ + block.raw_size};
  std::array<uint64_t, kColumns> sizes{};
  for (uint64_t& size : sizes) {
    if (!take_varint(kHeads, &size)) return fail_at_event("is in a block without columns");
  }
  Bytes rest = columns_[kHeads];
  for (size_t i = 0; i < kColumns; ++i) {
    if (sizes[i] > static_cast<uint64_t>(rest.end - rest.next)) {
      return fail_at_event("is in a block with columns longer than itself");
    }
    columns_[i] = {rest.next, rest.next + sizes[i]};
    rest.next += sizes[i];
  }
  if (rest.next != rest.end || sizes[kHeads] != block.events) {
    return fail_at_event("is in a block of another length than it says");
  }
  return true;
}

bool PackedReader::take_varint(Column column, uint64_t* value) {
  Bytes& bytes = columns_[column];
  uint64_t sum = 0;
  for (unsigned shift = 0; shift < 64 && bytes.next != bytes.end; shift += 7) {
    const uint8_t byte = *bytes.next++;
    if (shift == 63 && byte > 1) return false;
    sum |= static_cast<uint64_t>(byte & 127) << shift;
    if (byte < 128) {
      *value = sum;
      return true;
    }
  }
  return false;
}

bool PackedReader::next(Event* out) {
  if (error_[0] != 0 || truncated_) return false;
  if (columns_[kHeads].next == columns_[kHeads].end && !next_block()) return false;
  const uint8_t head = *columns_[kHeads].next++;
  if (head > kKnownBits) return fail_at_event("is of an unknown kind");
  out->kind = static_cast<EventKind>(head & kKindBits);
  if (!take_thread(head, out) || !take_time(head, out) || !take_object(out)) return false;
  if (!take_size(head, out)) return false;
  ++events_read_;
  return true;
}

bool PackedReader::take_thread(uint8_t head, Event* out) {
  uint64_t thread = thread_;
  if ((head & kHasThread) != 0 && !take_varint(kThreads, &thread)) {
    return fail_at_event("has no thread");
  }
  if (thread > threads_seen_ || thread >= kMostThreads) {
    return fail_at_event("is of a thread whose number is not the next");
  }
  if (thread == threads_seen_) ++threads_seen_;
  out->thread = thread_ = static_cast<uint32_t>(thread);
  return true;
}

bool PackedReader::take_time(uint8_t head, Event* out) {
  uint64_t units = 0;
  if ((head & kHasTime) != 0 && !take_varint(kTimes, &units)) return fail_at_event("has no time");
  if (units > (kMostTime - time_) / kTimeUnitNs) return fail_at_event("is centuries later");
  out->time_ns = time_ += units * kTimeUnitNs;
  return true;
}

bool PackedReader::take_object(Event* out) {
  if (makes_object(out->kind)) {
    object_ = numbers_.take();
    if (object_ == ObjectNumbers::kNone) return fail_at_event("is one object too many");
  } else {
    uint64_t distance = 0;
    if (!take_varint(kObjects, &distance)) return fail_at_event("has no object");
    object_ += static_cast<uint64_t>(from_zigzag(distance));
    if (!numbers_.is_taken(object_)) {
      return fail_at_event(out->kind == EventKind::kFree ? "frees what is not alive"
                                                         : "resizes what is not alive");
    }
    if (out->kind == EventKind::kFree) numbers_.give(object_);
  }
  out->object = object_;
  return true;
}

bool PackedReader::take_size(uint8_t head, Event* out) {
  out->size = 0;
  out->alignment_log2 = 0;
  if (has_size(out->kind) && (!take_varint(kSizes, &out->size) || out->size > kMostBytes)) {
    return fail_at_event("has no size, or one that is too large");
  }
  if ((head & kHasAlignment) == 0) return true;
  Bytes& alignments = columns_[kAlignments];
  if (alignments.next == alignments.end || *alignments.next > kMostAlignmentLog2 ||
      !has_size(out->kind)) {
    return fail_at_event("has an alignment that no program asks for");
  }
  out->alignment_log2 = *alignments.next++;
  return true;
}

}  // namespace rdmalloc::trace
