// The packed trace file: what is written can be read, and damaged files are refused with a message.
#include "allocator/trace/trace_file.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>
#include <zstd.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "allocator/trace/object_numbers.h"
#include "allocator/trace/packed_format.h"
#include "allocator/trace/packed_reader.h"
#include "tests/support/containing.h"

namespace rdmalloc::trace {
namespace {

// A memory file of this test's own, because truncating takes milliseconds on some disks.
class TemporaryFile {
 public:
  TemporaryFile() : fd_(memfd_create("trace", MFD_CLOEXEC)) {
    path_ = "/proc/self/fd/" + std::to_string(fd_);
  }
  ~TemporaryFile() { close(fd_); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const std::string& path() const { return path_; }

  std::string contents() const {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void set_contents(const std::string& bytes) const {
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << bytes;
  }

 private:
  int fd_;
  std::string path_;
};

using Events = std::vector<Event>;

bool same(const Event& one, const Event& other) {
  return one.kind == other.kind && one.thread == other.thread && one.time_ns == other.time_ns &&
         one.object == other.object && one.size == other.size &&
         one.alignment_log2 == other.alignment_log2;
}

// Whether `whole` begins with `part`.
bool begins(const Events& whole, const Events& part) {
  if (part.size() > whole.size()) return false;
  for (size_t i = 0; i < part.size(); ++i) {
    if (!same(whole[i], part[i])) return false;
  }
  return true;
}

// As a recorder makes them: objects numbered lowest first, threads in order of appearance.
Events some_events(size_t count, uint32_t seed) {
  std::mt19937_64 random(seed);
  ObjectNumbers numbers;
  REQUIRE(numbers.start());
  std::vector<uint64_t> alive;
  Events events;
  uint64_t time = 0;
  constexpr uint32_t kThreadCount = 9;
  while (events.size() < count) {
    Event event;
    if (random() % 3 == 0) time += random() % 5000 * kTimeUnitNs;
    event.time_ns = time;
    event.thread = random() % 2 == 0 ? 4 : static_cast<uint32_t>(random() % kThreadCount);
    const uint64_t choice = random() % 8;
    if (alive.empty() || choice < 4) {
      event.kind = choice == 0 ? EventKind::kAllocateZeroed : EventKind::kAllocate;
      event.object = numbers.take();
      event.size = random() % 4 == 0 ? random() % (uint64_t{1} << 40) : random() % 1000;
      event.alignment_log2 = choice == 1 ? static_cast<uint8_t>(random() % 21) : 0;
      alive.push_back(event.object);
    } else {
      uint64_t& object = alive[random() % alive.size()];
      event.object = object;
      event.kind = choice < 7 ? EventKind::kFree : EventKind::kResize;
      event.size = choice < 7 ? 0 : random() % 100000;
      if (choice < 7) {
        numbers.give(object);
        object = alive.back();
        alive.pop_back();
      }
    }
    events.push_back(event);
  }
  // Threads must be numbered in order of appearance.
  std::vector<uint32_t> number(kThreadCount, UINT32_MAX);
  uint32_t next = 0;
  for (Event& event : events) {
    if (number[event.thread] == UINT32_MAX) number[event.thread] = next++;
    event.thread = number[event.thread];
  }
  return events;
}

Header write(const std::string& path, const Events& events) {
  Writer writer(path, "a program 'of words'");
  for (const Event& event : events) writer.add(event);
  return writer.finish();
}

struct Outcome {
  Events events;
  bool truncated = false;
  std::string error;  // what() of the exception
};

Outcome read(const std::string& path, size_t most = SIZE_MAX) {
  Outcome outcome;
  try {
    Reader reader(path);
    for (Event event; outcome.events.size() < most && reader.next(&event);) {
      outcome.events.push_back(event);
    }
    outcome.truncated = reader.truncated();
  } catch (const std::runtime_error& error) {
    outcome.error = error.what();
  }
  return outcome;
}

Event allocation(uint64_t object, uint64_t size) {
  Event event;
  event.object = object;
  event.size = size;
  return event;
}

Event freeing(uint64_t object) {
  Event event;
  event.kind = EventKind::kFree;
  event.object = object;
  return event;
}

// A file with one block of arbitrary content.
std::string file_with_block(const Counts& counts, const std::vector<uint8_t>& raw,
                            uint32_t events) {
  FileHeader header;
  memcpy(header.magic, kMagic, sizeof kMagic);
  header.version = kVersion;
  header.finished = 1;
  header.counts = counts;
  header.checksum = checksum(&header, sizeof header);
  std::string packed(ZSTD_compressBound(raw.size()), 0);
  packed.resize(ZSTD_compress(packed.data(), packed.size(), raw.data(), raw.size(), 3));
  BlockHeader block;
  block.events = events;
  block.raw_size = static_cast<uint32_t>(raw.size());
  block.packed_size = static_cast<uint32_t>(packed.size());
  std::string file(reinterpret_cast<const char*>(&header), sizeof header);
  file.append(reinterpret_cast<const char*>(&block), sizeof block);
  return file + packed;
}

}  // namespace

TEST_CASE("numbers are taken lowest first, and used again") {
  ObjectNumbers numbers;
  REQUIRE(numbers.start());
  for (uint64_t i = 0; i < 300000; ++i) REQUIRE(numbers.take() == i);
  for (const uint64_t number : {262143U, 70000U, 64U, 3U}) {
    REQUIRE(numbers.is_taken(number));
    numbers.give(number);
    REQUIRE(!numbers.is_taken(number));
  }
  for (const uint64_t number : {3U, 64U, 70000U, 262143U, 300000U})
    REQUIRE(numbers.take() == number);
  REQUIRE(!numbers.is_taken(300001));
  REQUIRE(!numbers.is_taken(UINT64_MAX));
}

TEST_CASE("a trace is read as it was written") {
  for (const size_t count : {0UL, 1UL, 1000UL, size_t{kMostBlockEvents}, 150000UL}) {
    const TemporaryFile file;
    const Events events = some_events(count, static_cast<uint32_t>(count));
    const Header written = write(file.path(), events);
    Reader reader(file.path());
    REQUIRE(reader.header().program == "a program 'of words'");
    REQUIRE(reader.header().events == count);
    REQUIRE(reader.header().threads == written.threads);
    REQUIRE(reader.header().objects == written.objects);
    REQUIRE(reader.header().peak_bytes == written.peak_bytes);
    REQUIRE(reader.header().duration_ns == (count == 0 ? 0 : events.back().time_ns));
    for (int pass = 0; pass < 2; ++pass) {
      Event event;
      size_t equal = 0;
      while (reader.next(&event)) equal += same(event, events[equal]);
      REQUIRE(equal == count);
      REQUIRE(!reader.truncated());
      reader.rewind();
    }
  }
}

TEST_CASE("the header says what was alive at most") {
  const TemporaryFile file;
  Event resize = allocation(1, 500);
  resize.kind = EventKind::kResize;
  const Header header = write(
      file.path(), {allocation(0, 100), allocation(1, 50), resize, freeing(0), allocation(0, 1)});
  REQUIRE(header.objects == 2);
  REQUIRE(header.peak_bytes == 600);
  REQUIRE(header.events == 5);
  REQUIRE(header.threads == 1);
}

TEST_CASE("objects and threads get the file's own numbers") {
  const TemporaryFile file;
  Event other = allocation(0xdead0, 8);
  other.thread = 777;
  (void)write(file.path(), {allocation(0xbeef0, 8), other, freeing(0xbeef0), allocation(5, 8)});
  const Outcome outcome = read(file.path());
  REQUIRE(outcome.events.size() == 4);
  REQUIRE(outcome.events[1].object == 1);
  REQUIRE(outcome.events[1].thread == 1);
  REQUIRE(outcome.events[2].object == 0);
  REQUIRE(outcome.events[3].object == 0);
}

TEST_CASE("the writer refuses what could not be replayed") {
  const TemporaryFile file;
  Writer writer(file.path(), "x");
  writer.add(allocation(7, 1));
  REQUIRE_THROWS_WITH(writer.add(allocation(7, 1)), test::containing("is alive"));
  REQUIRE_THROWS_WITH(writer.add(freeing(8)), test::containing("event 1 frees"));
  REQUIRE_THROWS_WITH(writer.add(allocation(9, UINT64_MAX)), test::containing("bytes"));
  Event later = allocation(9, 1);
  later.time_ns = 5000;
  writer.add(later);
  REQUIRE_THROWS_WITH(writer.add(freeing(7)), test::containing("earlier"));
  REQUIRE_THROWS_WITH(Writer("/nowhere/at/all", "x"), test::containing("No such file"));
}

TEST_CASE("a full disk is an error of the writer, not a short trace") {
  REQUIRE_THROWS_WITH(Writer("/dev/full", "x"), test::containing("No space left"));
}

TEST_CASE("a trace cut off at any byte gives whole events and says that it is cut off") {
  const TemporaryFile file;
  const Events events = some_events(kMostBlockEvents + 300, 3);
  (void)write(file.path(), events);
  const std::string whole = file.contents();
  // Every byte of the header and of the end, and a sample of those between.
  const auto is_interesting = [&whole](size_t at) {
    return at < 200 || whole.size() - at < 50 || at % 29989 == 0;
  };
  for (size_t size = 0; size < whole.size(); ++size) {
    if (!is_interesting(size)) continue;
    file.set_contents(whole.substr(0, size));
    const Outcome outcome = read(file.path());
    INFO("cut at " << size << " of " << whole.size() << " " << outcome.error);
    REQUIRE((outcome.truncated || !outcome.error.empty()));
    REQUIRE(begins(events, outcome.events));
    REQUIRE(outcome.events.size() % kMostBlockEvents == 0);
  }
}

TEST_CASE("what the writer did not finish reads as truncated") {
  const TemporaryFile file;
  const Events events = some_events(kMostBlockEvents + 10, 4);
  {
    Writer writer(file.path(), "killed");
    for (const Event& event : events) writer.add(event);
  }
  const Outcome outcome = read(file.path());
  REQUIRE(outcome.truncated);
  REQUIRE(outcome.events.size() == kMostBlockEvents);
  REQUIRE(begins(events, outcome.events));
}

TEST_CASE("a flipped bit is never believed") {
  const TemporaryFile file;
  const Events events = some_events(60, 5);
  (void)write(file.path(), events);
  const std::string whole = file.contents();
  for (size_t bit = 0; bit < whole.size() * 8; ++bit) {
    std::string flipped = whole;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ 1 << bit % 8);
    file.set_contents(flipped);
    const Outcome outcome = read(file.path());
    INFO("bit " << bit);
    const bool is_noticed = outcome.truncated || !outcome.error.empty();
    REQUIRE(begins(events, outcome.events));
    REQUIRE((is_noticed || outcome.events.size() == events.size()));
  }
}

TEST_CASE("random bytes after a good header are refused") {
  const TemporaryFile file;
  (void)write(file.path(), some_events(100, 6));
  const std::string header = file.contents().substr(0, sizeof(FileHeader) + 20);
  std::mt19937 random(7);
  for (int round = 0; round < 500; ++round) {
    std::string bytes = header;
    for (size_t i = random() % 200; i > 0; --i) bytes += static_cast<char>(random());
    file.set_contents(bytes);
    const Outcome outcome = read(file.path());
    REQUIRE((outcome.truncated || !outcome.error.empty()));
    REQUIRE(outcome.events.empty());
  }
}

TEST_CASE("another file, another version and a folder are refused by name") {
  const TemporaryFile file;
  file.set_contents("#!/bin/sh\necho this is no trace, but longer than a header of one: hello\n");
  REQUIRE_THAT(read(file.path()).error, test::containing("is not a trace"));
  REQUIRE_THAT(read(file.path()).error, test::containing(file.path()));
  file.set_contents("");
  REQUIRE_THAT(read(file.path()).error, test::containing("is not a trace"));
  (void)write(file.path(), {});
  std::string other = file.contents();
  other[offsetof(FileHeader, version)] = 9;
  file.set_contents(other);
  REQUIRE_THAT(read(file.path()).error, test::containing("of version 9"));
  REQUIRE_THAT(read("/tmp").error, test::containing("is a folder"));
  REQUIRE_THAT(read("/dev/null").error, test::containing("not a regular file"));
  REQUIRE_THAT(read("/nowhere").error, test::containing("No such file"));
}

TEST_CASE("implausible counts are refused, though their checksum is right") {
  const TemporaryFile file;
  for (const Counts& counts : {Counts{UINT64_MAX, 1, uint64_t{1} << 40, 0, 0},
                               Counts{UINT64_MAX, UINT64_MAX, 1, 0, 0}, Counts{1, 1, 2, 0, 0}}) {
    file.set_contents(file_with_block(counts, {0}, 1));
    REQUIRE_THAT(read(file.path()).error, test::containing("header is damaged"));
  }
}

TEST_CASE("a block that frees what is not alive is refused, though its checksum is right") {
  const TemporaryFile file;
  // One head: a free; its object: 0.
  file.set_contents(file_with_block(Counts{1, 1, 1, 0, 0}, {1, 0, 0, 1, 0, 0, 3, 0}, 1));
  const Outcome outcome = read(file.path());
  REQUIRE(outcome.events.empty());
  REQUIRE_THAT(outcome.error, test::containing("event 0 frees what is not alive"));
}

TEST_CASE("columns that do not fit their block are refused") {
  const TemporaryFile file;
  for (const std::vector<uint8_t>& raw : std::vector<std::vector<uint8_t>>{
           {1, 0, 0, 0, 200, 200, 200, 200, 200, 200, 200, 200, 200, 1, 0, 0},
           {2, 0, 0, 0, 0, 0, 0, 0},
           {1, 0, 0, 0, 0, 0, 32},
           {1, 0, 0, 0, 0, 0, 0},
           {1, 0},
           {1, 1, 0, 0, 1, 0, 4, 9, 5},
           {1, 0, 0, 0, 1, 1, 16, 5, 63}}) {
    file.set_contents(file_with_block(Counts{1, 1, 1, 0, 0}, raw, 1));
    const Outcome outcome = read(file.path());
    REQUIRE(outcome.events.empty());
    REQUIRE_THAT(outcome.error, test::containing("damaged"));
  }
}

TEST_CASE("a block that unpacks to more than it says takes no memory") {
  const TemporaryFile file;
  // 64 MiB of zeros in a few kilobytes. Sanitizers need extra memory.
#ifdef RDM_SANITIZED
  constexpr long kMostKib = 32 << 10;
#else
  constexpr long kMostKib = 8 << 10;
#endif
  const std::vector<uint8_t> zeros(64 << 20);
  std::string packed(ZSTD_compressBound(zeros.size()), 0);
  packed.resize(ZSTD_compress(packed.data(), packed.size(), zeros.data(), zeros.size(), 1));
  std::string bomb = file_with_block(Counts{1, 1, 1, 0, 0}, {0}, 1);
  BlockHeader block{1, kMostRawSize, static_cast<uint32_t>(packed.size())};
  bomb.resize(sizeof(FileHeader));
  bomb.append(reinterpret_cast<const char*>(&block), sizeof block);
  file.set_contents(bomb + packed);
  rusage before{};
  getrusage(RUSAGE_SELF, &before);
  REQUIRE_THAT(read(file.path()).error, test::containing("broken block"));
  rusage after{};
  getrusage(RUSAGE_SELF, &after);
  REQUIRE(after.ru_maxrss - before.ru_maxrss < kMostKib);
}

}  // namespace rdmalloc::trace
