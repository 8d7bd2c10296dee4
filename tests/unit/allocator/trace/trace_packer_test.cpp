// Hand-made recordings, and the traces packed from them.
#include "allocator/trace/packer.h"

#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "allocator/os/page_size.h"
#include "allocator/trace/raw_file.h"
#include "tests/support/catch.h"

namespace rdmalloc::trace {
namespace {

constexpr uint64_t kStart = 1000;
constexpr uint64_t kA = 0x7f0000001000;
constexpr uint64_t kB = 0x7f0000002000;

class TemporaryFile {
 public:
  TemporaryFile() {
    char name[] = "/tmp/rdmalloc-raw-XXXXXX";
    close(mkstemp(name));
    path_ = name;
  }
  ~TemporaryFile() { unlink(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// A recording in memory: chunks of the shortest length, with the given words.
class Recording {
 public:
  Recording() {
    header.magic = kRawMagic;
    header.version = kRawVersion;
    header.start_ticks = kStart;
    header.limit = uint64_t{1} << 30;
    strcpy(header.executable, "/usr/bin/program");
    constexpr char kWords[] = "program\0it's\0plain";
    memcpy(header.program, kWords, sizeof kWords);
    header.program_size = sizeof kWords;
  }

  void chunk(uint32_t thread, uint64_t stamp, const std::vector<uint64_t>& words) {
    std::string page(first_chunk(), '\0');
    const ChunkHeader head{kChunkMagic, thread, static_cast<uint32_t>(first_chunk()), stamp};
    memcpy(page.data(), &head, sizeof head);
    memcpy(page.data() + sizeof head, words.data(), words.size() * sizeof(uint64_t));
    chunks += page;
  }

  std::string bytes() const {
    RawHeader whole = header;
    if (whole.taken == 0) whole.taken = os::page_size() + chunks.size();
    std::string first(os::page_size(), '\0');
    memcpy(first.data(), &whole, sizeof whole);
    return first + chunks;
  }

  RawHeader header{};
  std::string chunks;
};

uint64_t allocate(uint64_t address, uint64_t size) {
  return raw_event(RawKind::kAllocate, size, address);
}
uint64_t release(uint64_t address) { return raw_event(RawKind::kFree, 0, address); }
uint64_t begin_resize(uint64_t address) { return raw_event(RawKind::kResizeBegin, 0, address); }
uint64_t end_resize(uint64_t address) { return raw_event(RawKind::kResizeEnd, 0, address); }
uint64_t at(uint64_t stamp) { return raw_time(kStart + stamp); }

struct Result {
  Packed packed;
  std::vector<Event> events;
};

void write(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

// One tick is a microsecond, which a trace preserves.
Result pack_bytes(const std::string& bytes) {
  TemporaryFile raw;
  TemporaryFile trace;
  write(raw.path(), bytes);
  Result result;
  const RawFile file(raw.path());
  Writer writer(trace.path(), file.program());
  result.packed = pack(file, 1000, writer);
  Reader reader(trace.path());
  for (Event event; reader.next(&event);) result.events.push_back(event);
  return result;
}

Result pack_it(const Recording& recording) { return pack_bytes(recording.bytes()); }

std::vector<EventKind> kinds(const Result& result) {
  std::vector<EventKind> all;
  for (const Event& event : result.events) all.push_back(event.kind);
  return all;
}

std::string refusal_of(const std::string& bytes) {
  try {
    pack_bytes(bytes);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

using Kinds = std::vector<EventKind>;

}  // namespace

TEST_CASE("the calls of all threads come in the order of their stamps") {
  Recording recording;
  recording.chunk(0, kStart, {at(10), allocate(kA, 100), at(40), release(kB)});
  recording.chunk(7, kStart, {at(20), allocate(kB, 200), at(30), release(kA)});
  const Result result = pack_it(recording);
  CHECK(kinds(result) ==
        Kinds{EventKind::kAllocate, EventKind::kAllocate, EventKind::kFree, EventKind::kFree});
  CHECK(result.events[1].size == 200);
  CHECK(result.events[1].thread == 1);
  CHECK(result.events[2].time_ns == 30000);
  CHECK(result.packed.header.threads == 2);
  CHECK(result.packed.header.peak_bytes == 300);
  CHECK(result.packed.live_objects == 0);
}

TEST_CASE("a word tells the ticks since the call before, or the size, and the next word the rest") {
  Recording recording;
  recording.chunk(0, kStart,
                  {raw_event(RawKind::kAllocateZeroed, 5, kA), raw_more(6, 1 << 20),
                   raw_event(RawKind::kFree, 3, kA), raw_event(RawKind::kAllocate, 77, kB)});
  const Result result = pack_it(recording);
  REQUIRE(result.events.size() == 3);
  CHECK(result.events[0].kind == EventKind::kAllocateZeroed);
  CHECK(result.events[0].size == 1 << 20);
  CHECK(result.events[0].alignment_log2 == 6);
  CHECK(result.events[0].time_ns == 5000);
  CHECK(result.events[1].time_ns == 8000);
  CHECK(result.events[2].size == 77);
  CHECK(result.events[2].time_ns == 8000);
}

TEST_CASE("a call near the one before takes half a word") {
  const auto two = [](uint32_t first, uint32_t second) { return first | uint64_t{second} << 32; };
  Recording recording;
  recording.chunk(
      0, kStart,
      {allocate(kA, 100), two(raw_ticks(7), raw_near_allocate(48, 2)),
       two(raw_near_free(0), raw_near_free(-2)), two(raw_near_allocate(1023, -131072), 0),
       raw_event(RawKind::kFree, 3, kA - 16 * 131072)});
  const Result result = pack_it(recording);
  CHECK(kinds(result) == Kinds{EventKind::kAllocate, EventKind::kAllocate, EventKind::kFree,
                               EventKind::kFree, EventKind::kAllocate, EventKind::kFree});
  CHECK(result.packed.unmatched == 0);
  REQUIRE(result.events.size() == 6);
  CHECK(result.events[1].size == 48);
  CHECK(result.events[1].time_ns == 7000);
  CHECK(result.events[4].size == 1023);
  CHECK(result.events[5].time_ns == 10000);
}

TEST_CASE("a resize is one event of the object that moved") {
  Recording recording;
  recording.chunk(
      0, kStart,
      {allocate(kA, 10), begin_resize(kA), end_resize(kB), raw_more(0, 20), release(kB)});
  const Result result = pack_it(recording);
  CHECK(kinds(result) == Kinds{EventKind::kAllocate, EventKind::kResize, EventKind::kFree});
  CHECK(result.events[1].size == 20);
  CHECK(result.events[1].object == result.events[0].object);
  CHECK(result.packed.unmatched == 0);
}

TEST_CASE("a resize that was refused leaves the object, one to nothing frees it") {
  Recording recording;
  recording.chunk(0, kStart,
                  {allocate(kA, 10), begin_resize(kA), end_resize(kA), raw_more(kRefused, 0),
                   allocate(kB, 5), begin_resize(kB), allocate(kB, 6), begin_resize(kA)});
  const Result result = pack_it(recording);
  CHECK(kinds(result) == Kinds{EventKind::kAllocate, EventKind::kAllocate, EventKind::kAllocate,
                               EventKind::kFree, EventKind::kFree});
  CHECK(result.packed.live_objects == 1);
  CHECK(result.packed.live_bytes == 6);
}

TEST_CASE("an address that a thread has before its free was stamped waits for that free") {
  Recording recording;
  recording.chunk(0, kStart, {allocate(kA, 10), at(90), allocate(kA, 20)});
  recording.chunk(1, kStart, {at(100), release(kA)});
  const Result result = pack_it(recording);
  CHECK(kinds(result) == Kinds{EventKind::kAllocate, EventKind::kFree, EventKind::kAllocate});
  CHECK(result.packed.missing == 0);
  CHECK(result.packed.live_bytes == 20);
}

TEST_CASE("a free that was stamped before its allocation waits for that") {
  Recording recording;
  recording.chunk(0, kStart, {at(100), allocate(kA, 10)});
  recording.chunk(1, kStart, {at(90), release(kA), at(300), allocate(kB, 1)});
  const Result result = pack_it(recording);
  CHECK(kinds(result) == Kinds{EventKind::kAllocate, EventKind::kFree, EventKind::kAllocate});
  CHECK(result.packed.unmatched == 0);
}

TEST_CASE("frees of what was not allocated in the recording are counted and left out") {
  Recording recording;
  recording.chunk(0, kStart,
                  {release(kA), allocate(kB, 1), begin_resize(kA), end_resize(kA), raw_more(0, 9)});
  recording.chunk(1, kStart, {release(0x10), at(50), allocate(0x20, 3)});
  const Result result = pack_it(recording);
  CHECK(result.packed.unmatched == 3);
  CHECK(result.packed.live_bytes == 1 + 9 + 3);
}

TEST_CASE("an object ends where its address comes again, and the missing free is counted") {
  Recording recording;
  recording.chunk(0, kStart, {allocate(kA, 10), allocate(kA, 20)});
  recording.chunk(1, kStart, {allocate(kB, 1), at(5000000), allocate(kB, 2)});
  const Result result = pack_it(recording);
  CHECK(result.packed.missing == 2);
  CHECK(result.packed.live_objects == 2);
  CHECK(result.packed.live_bytes == 22);
}

TEST_CASE("what a killed program did not finish is left out, and what follows is not") {
  Recording recording;
  // A slot that was reserved but never written, and a second word without its first.
  recording.chunk(0, kStart, {allocate(kA, 10), 0, raw_more(0, 99), release(kA)});
  recording.chunks +=
      std::string(os::page_size(), '\0');  // a chunk that was reserved but not begun
  recording.chunk(0, kStart, {allocate(kB, 20)});
  const Result result = pack_it(recording);
  CHECK(kinds(result) == Kinds{EventKind::kAllocate, EventKind::kFree, EventKind::kAllocate});
  CHECK(result.packed.damaged == 1);
}

TEST_CASE("a file that was cut off is read as far as it goes") {
  Recording recording;
  recording.chunk(0, kStart, {allocate(kA, 10)});
  recording.chunk(0, kStart, {allocate(kB, 20)});
  recording.header.taken = uint64_t{1} << 40;
  const std::string whole = recording.bytes();
  CHECK(pack_bytes(whole).events.size() == 2);
  CHECK(pack_bytes(whole.substr(0, whole.size() - 100)).events.size() == 1);
  CHECK(pack_bytes(whole.substr(0, os::page_size())).events.empty());
}

TEST_CASE("calls after the recording stopped are left out, because other threads' are missing") {
  Recording recording;
  recording.chunk(0, kStart, {at(10), allocate(kA, 10), at(30), release(kA)});
  recording.header.stopped = static_cast<uint32_t>(StopReason::kLimit);
  recording.header.stopped_ticks = kStart + 20;
  const Result result = pack_it(recording);
  CHECK(result.events.size() == 1);
  CHECK(result.packed.after_stop == 1);
}

TEST_CASE("a recording tells its program as a shell would take it") {
  TemporaryFile file;
  write(file.path(), Recording().bytes());
  const RawFile raw(file.path());
  CHECK(raw.name() == "program");
  CHECK(raw.program() == "program 'it'\\''s' plain");
}

TEST_CASE("what is no recording is refused with a sentence") {
  CHECK(refusal_of("").find("is not a recording") != std::string::npos);
  CHECK(refusal_of(std::string(100000, 'x')).find("is not a recording") != std::string::npos);
  Recording recording;
  recording.header.version = kRawVersion + 1;
  CHECK(refusal_of(recording.bytes()).find("another version") != std::string::npos);
  CHECK_THROWS_AS(RawFile("/tmp"), std::runtime_error);
  CHECK_THROWS_AS(RawFile("/dev/zero"), std::runtime_error);
}

TEST_CASE("implausible chunks and sizes are passed over") {
  Recording recording;
  recording.chunk(kMostThreads, kStart, {allocate(kA, 10)});
  recording.chunk(0, kStart, {raw_event(RawKind::kAllocate, 0, kA), raw_more(0, kMostBytes * 2)});
  const Result result = pack_it(recording);
  CHECK(result.events.empty());
  CHECK(result.packed.damaged == 1);
}

TEST_CASE("no damage to a recording does more than to be refused or left out") {
  Recording recording;
  std::mt19937_64 random(1);
  for (uint32_t thread = 0; thread < 3; ++thread) {
    std::vector<uint64_t> words;
    for (int i = 0; i < 100; ++i) {
      const uint64_t address = kA + random() % 8 * 16;
      words.push_back(random() % 2 == 0 ? allocate(address, 8) : release(address));
    }
    recording.chunk(thread, kStart, words);
  }
  const std::string whole = recording.bytes();
  int read = 0;
  for (int round = 0; round < 400; ++round) {
    std::string damaged = whole;
    for (uint64_t i = 0; i < 1 + random() % 8; ++i) {
      // In the header's numbers, or anywhere.
      const size_t place = random() % (random() % 2 == 0 ? 128 : damaged.size());
      damaged[place] = static_cast<char>(random());
    }
    if (random() % 4 == 0) damaged.resize(random() % damaged.size());
    if (refusal_of(damaged).empty()) ++read;
  }
  CHECK(read > 100);
}

}  // namespace rdmalloc::trace
