// libFuzzer: bytes are a packed trace, or the blocks of one, or its text. Whatever the bytes are,
// the readers must deliver a trace that can be replayed.
#include <sys/mman.h>
#include <unistd.h>
#include <zstd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "allocator/trace/packed_format.h"
#include "allocator/trace/packed_reader.h"
#include "allocator/trace/text_format.h"

namespace {

using namespace rdmalloc::trace;

// Bounds what one input can take.
constexpr uint64_t kMostEvents = 200000;

void require(bool kept, const char* promise) {
  if (kept) return;
  fprintf(stderr, "broken promise: %s\n", promise);
  abort();
}

// The bytes as what a block unpacks to, behind headers that are right: random bytes would not get
// past zstd's checksum.
std::string with_headers(const uint8_t* data, size_t size) {
  FileHeader header;
  memcpy(header.magic, kMagic, sizeof kMagic);
  header.version = kVersion;
  header.checksum = checksum(&header, sizeof header);
  BlockHeader block;
  block.events = size > 0 ? data[0] : 0;
  block.raw_size = static_cast<uint32_t>(size);
  std::string packed(ZSTD_compressBound(size), 0);
  packed.resize(ZSTD_compress(packed.data(), packed.size(), data, size, 1));
  block.packed_size = static_cast<uint32_t>(packed.size());
  return std::string(reinterpret_cast<const char*>(&header), sizeof header) +
         std::string(reinterpret_cast<const char*>(&block), sizeof block) + packed;
}

uint64_t read_all(PackedReader& reader) {
  std::unordered_set<uint64_t> alive;
  uint64_t time = 0;
  uint64_t count = 0;
  for (Event event; count < kMostEvents && reader.next(&event); ++count) {
    require(event.time_ns >= time, "time goes on");
    time = event.time_ns;
    require(event.size <= kMostBytes && event.alignment_log2 <= kMostAlignmentLog2, "sizes");
    if (makes_object(event.kind)) {
      require(alive.insert(event.object).second, "an object is made once");
    } else {
      require(alive.contains(event.object), "only what is alive is resized and freed");
      if (event.kind == EventKind::kFree) alive.erase(event.object);
    }
  }
  return count;
}

void read_packed(const std::string& bytes) {
  const int fd = memfd_create("trace", MFD_CLOEXEC);
  require(write(fd, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()), "memory");
  const std::string path = "/proc/self/fd/" + std::to_string(fd);
  PackedReader reader;
  if (reader.open(path.c_str())) {
    const uint64_t first = read_all(reader);
    require(reader.rewind() && read_all(reader) == first, "a second reading gives the same");
  } else {
    require(reader.error() != nullptr, "a refusal has a reason");
  }
  close(fd);
}

void read_text(std::string_view text) {
  TextParser parser;
  Event before;
  try {
    for (size_t start = 0; start <= text.size();) {
      const size_t end = std::min(text.find('\n', start), text.size());
      Event event;
      if (parser.parse(text.substr(start, end - start), &event)) {
        // The printed event must parse again.
        TextParser again;
        Event same;
        if (makes_object(event.kind)) require(again.parse(to_text(event, before), &same), "text");
        before = event;
      }
      start = end + 1;
    }
  } catch (const std::runtime_error&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] % 3 == 0) read_packed(std::string(rest));
  if (data[0] % 3 == 1) read_packed(with_headers(data + 1, size - 1));
  if (data[0] % 3 == 2) read_text(rest);
  return 0;
}
