#include "allocator/trace/trace_file.h"

#include <fcntl.h>
#include <unistd.h>
#include <zstd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <unordered_map>
#include <utility>
#include <vector>

#include "allocator/os/file.h"
#include "allocator/trace/object_numbers.h"
#include "allocator/trace/packed_format.h"
#include "allocator/trace/packed_reader.h"

namespace rdmalloc::trace {
namespace {

// Higher levels of zstd take much more time and gain little.
constexpr int kLevel = 15;

uint64_t to_zigzag(uint64_t distance) {
  return distance << 1 ^ static_cast<uint64_t>(static_cast<int64_t>(distance) >> 63);
}

using Bytes = std::vector<uint8_t>;

void put_varint(Bytes& bytes, uint64_t value) {
  for (; value >= 128; value >>= 7) bytes.push_back(static_cast<uint8_t>(value | 128));
  bytes.push_back(static_cast<uint8_t>(value));
}

struct FreeZstd {
  void operator()(ZSTD_CCtx* zstd) const { ZSTD_freeCCtx(zstd); }
};

}  // namespace

class Writer::State {
 public:
  State(const std::string& path, const std::string& program) : path_(path), program_(program) {
    // A truncated name is better than none.
    if (program_.size() > kMostProgramSize) program_.resize(kMostProgramSize);
    zstd_.reset(ZSTD_createCCtx());
    if (zstd_ == nullptr || !numbers_.start()) fail("there is no memory to write it");
    ZSTD_CCtx_setParameter(zstd_.get(), ZSTD_c_compressionLevel, kLevel);
    ZSTD_CCtx_setParameter(zstd_.get(), ZSTD_c_checksumFlag, 1);
    fd_ = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd_ < 0) fail(strerror(errno));
    put_header(0);
  }
  ~State() {
    if (fd_ >= 0) close(fd_);
  }

  void add(const Event& event) {
    check(event);
    auto head = static_cast<uint8_t>(event.kind);
    head |= put_thread(event);
    head |= put_time(event);
    put_object(event);
    if (has_size(event.kind)) put_varint(columns_[kSizes], event.size);
    if (has_size(event.kind) && event.alignment_log2 != 0) {
      head |= kHasAlignment;
      columns_[kAlignments].push_back(event.alignment_log2);
    }
    columns_[kHeads].push_back(head);
    ++counts_.events;
    if (columns_[kHeads].size() == kMostBlockEvents) put_block();
  }

  Header finish() {
    if (!columns_[kHeads].empty()) put_block();
    counts_.threads = threads_.size();
    counts_.duration_ns = time_;
    if (lseek(fd_, 0, SEEK_SET) != 0) fail(strerror(errno));
    put_header(1);
    const int fd = std::exchange(fd_, -1);
    if (close(fd) != 0) fail(strerror(errno));
    Header header;
    static_cast<Counts&>(header) = counts_;
    header.program = program_;
    return header;
  }

 private:
  struct Alive {
    uint64_t number;
    uint64_t size;
  };

  [[noreturn]] void fail(const std::string& why) const {
    throw std::runtime_error(path_ + ": " + why);
  }
  [[noreturn]] void fail_at_event(const std::string& what) const {
    fail("event " + std::to_string(counts_.events) + " " + what);
  }

  void check(const Event& event) const {
    if (event.size > kMostBytes) fail_at_event("is of more bytes than any machine has");
    if (event.alignment_log2 > kMostAlignmentLog2) fail_at_event("has an impossible alignment");
    if (event.time_ns < time_) fail_at_event("is earlier than the one before it");
    if (event.time_ns > kMostTime) fail_at_event("is centuries after the first");
  }

  uint8_t put_thread(const Event& event) {
    const auto [found, is_new] =
        threads_.try_emplace(event.thread, static_cast<uint32_t>(threads_.size()));
    if (is_new && threads_.size() > kMostThreads) fail_at_event("is one thread too many");
    if (found->second == thread_) return 0;
    thread_ = found->second;
    put_varint(columns_[kThreads], thread_);
    return kHasThread;
  }

  uint8_t put_time(const Event& event) {
    const uint64_t units = (event.time_ns - time_) / kTimeUnitNs;
    if (units == 0) return 0;
    time_ += units * kTimeUnitNs;
    put_varint(columns_[kTimes], units);
    return kHasTime;
  }

  void put_object(const Event& event) {
    const uint64_t before = number_;
    if (makes_object(event.kind)) {
      const auto [found, is_new] = alive_.try_emplace(event.object, Alive{0, event.size});
      if (!is_new) fail_at_event("allocates an object that is alive");
      number_ = found->second.number = numbers_.take();
      if (number_ == ObjectNumbers::kNone) fail_at_event("is one object too many");
      counts_.objects = std::max<uint64_t>(counts_.objects, alive_.size());
      resize_live(0, event.size);
      return;
    }
    const auto found = alive_.find(event.object);
    const bool frees = event.kind == EventKind::kFree;
    if (found == alive_.end()) {
      fail_at_event(frees ? "frees an object that is not alive"
                          : "resizes an object that is not alive");
    }
    number_ = found->second.number;
    put_varint(columns_[kObjects], to_zigzag(number_ - before));
    resize_live(found->second.size, frees ? 0 : event.size);
    found->second.size = event.size;
    if (!frees) return;
    numbers_.give(number_);
    alive_.erase(found);
  }

  void resize_live(uint64_t before, uint64_t after) {
    live_ += after - before;
    counts_.peak_bytes = std::max(counts_.peak_bytes, live_);
  }

  void put_block() {
    BlockHeader block;
    block.events = static_cast<uint32_t>(columns_[kHeads].size());
    raw_.clear();
    for (const Bytes& column : columns_) put_varint(raw_, column.size());
    for (Bytes& column : columns_) {
      raw_.insert(raw_.end(), column.begin(), column.end());
      column.clear();
    }
    packed_.resize(ZSTD_compressBound(raw_.size()));
    const size_t size =
        ZSTD_compress2(zstd_.get(), packed_.data(), packed_.size(), raw_.data(), raw_.size());
    if (ZSTD_isError(size)) fail(std::string("zstd: ") + ZSTD_getErrorName(size));
    block.raw_size = static_cast<uint32_t>(raw_.size());
    block.packed_size = static_cast<uint32_t>(size);
    put(&block, sizeof block);
    put(packed_.data(), size);
  }

  void put_header(uint32_t finished) {
    FileHeader header;
    std::copy(std::begin(kMagic), std::end(kMagic), header.magic);
    header.version = kVersion;
    header.finished = finished;
    header.counts = finished != 0 ? counts_ : Counts{};
    header.program_size = static_cast<uint32_t>(program_.size());
    header.checksum = checksum(program_.data(), program_.size(), checksum(&header, sizeof header));
    put(&header, sizeof header);
    put(program_.data(), program_.size());
  }

  void put(const void* data, size_t size) {
    if (!os::write_all(fd_, static_cast<const char*>(data), size)) fail(strerror(errno));
  }

  std::string path_;
  std::string program_;
  int fd_ = -1;
  std::unique_ptr<ZSTD_CCtx, FreeZstd> zstd_;
  Counts counts_;
  std::array<Bytes, kColumns> columns_;
  Bytes raw_;
  Bytes packed_;

  ObjectNumbers numbers_;
  std::unordered_map<uint64_t, Alive> alive_;
  std::unordered_map<uint32_t, uint32_t> threads_;
  uint64_t live_ = 0;
  uint64_t time_ = 0;
  uint64_t number_ = 0;
  uint32_t thread_ = 0;
};

Writer::Writer(const std::string& path, const std::string& program)
    : state_(std::make_unique<State>(path, program)) {}
Writer::~Writer() = default;
void Writer::add(const Event& event) { state_->add(event); }
Header Writer::finish() { return state_->finish(); }

Reader::Reader(const std::string& path) : path_(path), file_(std::make_unique<PackedReader>()) {
  if (!file_->open(path_.c_str())) throw std::runtime_error(file_->error());
  static_cast<Counts&>(header_) = file_->counts();
  header_.program = file_->program();
}
Reader::~Reader() = default;

bool Reader::next(Event* out) {
  if (file_->next(out)) return true;
  if (file_->error() != nullptr) throw std::runtime_error(file_->error());
  return false;
}

bool Reader::truncated() const { return file_->truncated(); }

void Reader::rewind() {
  if (!file_->rewind()) throw std::runtime_error(file_->error());
}

}  // namespace rdmalloc::trace
