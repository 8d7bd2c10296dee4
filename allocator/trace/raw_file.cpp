#include "allocator/trace/raw_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "allocator/os/page_size.h"
#include "allocator/trace/event.h"

namespace rdmalloc::trace {
namespace {

[[noreturn]] void fail(const std::string& path, const std::string& why) {
  throw std::runtime_error(path + ": " + why);
}

// Reads up to `size` bytes, fewer at the end of the file.
size_t read_at(int fd, uint64_t offset, void* into, size_t size) {
  size_t held = 0;
  while (held < size) {
    const ssize_t got =
        pread(fd, static_cast<char*>(into) + held, size - held, static_cast<off_t>(offset + held));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    held += static_cast<size_t>(got);
  }
  return held;
}

// Quotes a word as a shell would need it.
std::string quoted(const std::string& word) {
  constexpr const char* kPlain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789%+,-./:=@_";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string result = "'";
  for (const char c : word) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

}  // namespace

RawFile::RawFile(const std::string& path) : path_(path) {
  fd_ = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd_ < 0) fail(path, strerror(errno));
  try {
    read_header();
    find_chunks();
  } catch (...) {
    close(fd_);
    throw;
  }
}

RawFile::RawFile(RawFile&& other) noexcept
    : path_(std::move(other.path_)),
      fd_(std::exchange(other.fd_, -1)),
      bytes_(other.bytes_),
      header_(other.header_),
      threads_(std::move(other.threads_)) {}

RawFile& RawFile::operator=(RawFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  std::swap(bytes_, other.bytes_);
  std::swap(header_, other.header_);
  std::swap(threads_, other.threads_);
  return *this;
}

RawFile::~RawFile() {
  if (fd_ >= 0) close(fd_);
}

void RawFile::read_header() {
  struct stat status {};
  if (fstat(fd_, &status) != 0) fail(path_, strerror(errno));
  if (!S_ISREG(status.st_mode)) fail(path_, "is not a file");
  if (read_at(fd_, 0, &header_, sizeof header_) != sizeof header_ || header_.magic != kRawMagic) {
    fail(path_, "is not a recording, or one that did not begin");
  }
  if (header_.version != kRawVersion) {
    fail(path_, "was made by another version of the recorder: record again");
  }
  header_.executable[sizeof header_.executable - 1] = '\0';
  header_.program_size =
      std::min(header_.program_size, static_cast<uint32_t>(sizeof header_.program));
  bytes_ = std::min({header_.taken, header_.limit, static_cast<uint64_t>(status.st_size)});
}

// A thread that was killed while it took a chunk, or that found no space, leaves one without a
// header. The next chunk is searched for at the pages that follow, but not without limit.
void RawFile::find_chunks() {
  constexpr uint64_t kWidestGap = 4096 * kLongestChunk;
  uint64_t gap = 0;
  for (uint64_t at = os::page_size(); at + os::page_size() <= bytes_ && gap < kWidestGap;) {
    ChunkHeader chunk{};
    if (read_at(fd_, at, &chunk, sizeof chunk) != sizeof chunk) break;
    const bool valid = chunk.magic == kChunkMagic && chunk.bytes >= first_chunk() &&
                       chunk.bytes <= kLongestChunk && chunk.bytes % os::page_size() == 0 &&
                       chunk.bytes <= bytes_ - at && chunk.thread < kMostThreads;
    if (!valid) {
      at += os::page_size();
      gap += os::page_size();
      continue;
    }
    const auto units = static_cast<uint32_t>(chunk.bytes / sizeof(uint32_t) - kChunkHeaderUnits);
    threads_[chunk.thread].push_back({at + sizeof chunk, units, chunk.stamp});
    at += chunk.bytes;
    gap = 0;
  }
}

size_t RawFile::read(const Chunk& chunk, size_t first, uint32_t* into, size_t count) const {
  if (first >= chunk.units) return 0;
  count = std::min(count, chunk.units - first);
  const uint64_t offset = chunk.offset + first * sizeof(uint32_t);
  return read_at(fd_, offset, into, count * sizeof(uint32_t)) / sizeof(uint32_t);
}

// All chunks of a thread are full except the last, which is filled from the front.
uint64_t RawFile::units() const {
  uint64_t sum = 0;
  for (const auto& [thread, chunks] : threads_) {
    for (const Chunk& chunk : chunks) sum += chunk.units;
    const Chunk& last = chunks.back();
    uint32_t low = 0;
    uint32_t high = last.units;
    while (low < high) {
      const uint32_t middle = low + (high - low) / 2;
      uint32_t unit = 0;
      const bool written = read(last, middle, &unit, 1) == 1 && unit != 0;
      (written ? low : high) = written ? middle + 1 : middle;
    }
    sum -= last.units - low;
  }
  return sum;
}

std::string RawFile::name() const {
  const std::string executable = header_.executable;
  return executable.substr(executable.rfind('/') + 1);
}

std::string RawFile::program() const {
  std::string result;
  std::string word;
  for (uint32_t i = 0; i < header_.program_size; ++i) {
    const char c = header_.program[i];
    if (c != '\0') {
      word += c;
      continue;
    }
    result += (result.empty() ? "" : " ") + quoted(word);
    word.clear();
  }
  if (!word.empty()) result += (result.empty() ? "" : " ") + quoted(word) + " ...";
  return result.empty() ? name() : result;
}

}  // namespace rdmalloc::trace
