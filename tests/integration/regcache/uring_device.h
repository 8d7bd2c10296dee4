// A device for these tests: one io_uring that sends from and receives into fixed buffers, with a
// memory file as its peer. Keys come from a domain with the library; without it from a naive
// registration cache, keyed by address and never told of free().
//
// Only one thread at a time may use a device.
#pragma once

#include <errno.h>
#include <liburing.h>
#include <sys/mman.h>

#include <memory>

#include "tests/integration/probe.h"
#include "tests/integration/regcache/with_reason.h"

namespace probe {

struct DomainLibrary {
  decltype(rdm_domain_open_io_uring)* open =
      symbol<decltype(rdm_domain_open_io_uring)>("rdm_domain_open_io_uring");
  decltype(rdm_domain_close)* close = symbol<decltype(rdm_domain_close)>("rdm_domain_close");
  decltype(rdm_lookup)* lookup = symbol<decltype(rdm_lookup)>("rdm_lookup");
  decltype(rdm_last_error)* last_error = symbol<decltype(rdm_last_error)>("rdm_last_error");
};

inline const DomainLibrary& domains() {
  static const DomainLibrary found;
  return found;
}

// A domain, or a broken promise with the library's message.
inline rdm_domain* open_domain(int ring_fd, Verdict& verdict, DomainOptions& options) {
  rdm_domain* domain = nullptr;
  const int status = domains().open(ring_fd, &options, &domain);
  if (status == RDM_OK) return domain;
  if (status == RDM_UNSUPPORTED) skip(options.why);
  verdict.broken("opening a domain: status %d: %s", status, options.why);
  return nullptr;
}

inline rdm_domain* open_domain(int ring_fd, Verdict& verdict, unsigned flags = 0) {
  DomainOptions options(flags);
  return open_domain(ring_fd, verdict, options);
}

class Device {
 public:
  explicit Device(size_t room) : room_(room) {
    if (io_uring_queue_init(8, &ring_, 0) != 0) skip("no io_uring here");
    file_ = memfd_create("peer", MFD_CLOEXEC);
    if (file_ < 0 || ftruncate(file_, static_cast<off_t>(room)) != 0) skip("no file in memory");
    void* peer = mmap(nullptr, room, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
    if (peer == MAP_FAILED) skip("cannot map the file in memory");
    peer_ = static_cast<unsigned char*>(peer);
  }
  ~Device() {
    munmap(peer_, room_);
    ::close(file_);
    io_uring_queue_exit(&ring_);
  }
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  int ring_fd() const { return ring_.ring_fd; }
  io_uring* ring() { return &ring_; }
  // What the peer holds: what was sent last, or what will be received.
  unsigned char* peer() { return peer_; }

  // From memory to the peer, through buffer `key`. 0, or an errno.
  int send(uint32_t key, const void* address, size_t length) {
    io_uring_sqe* entry = io_uring_get_sqe(&ring_);
    io_uring_prep_write_fixed(entry, file_, address, static_cast<unsigned>(length), 0,
                              static_cast<int>(key));
    return finish(length);
  }
  // From the peer to memory.
  int receive(uint32_t key, void* address, size_t length) {
    io_uring_sqe* entry = io_uring_get_sqe(&ring_);
    io_uring_prep_read_fixed(entry, file_, address, static_cast<unsigned>(length), 0,
                             static_cast<int>(key));
    return finish(length);
  }

 private:
  int finish(size_t length) {
    int status = io_uring_submit(&ring_);
    if (status != 1) return status < 0 ? -status : EAGAIN;
    io_uring_cqe* done = nullptr;
    do {
      status = io_uring_wait_cqe(&ring_, &done);
    } while (status == -EINTR);
    if (status != 0) return -status;
    const int result = done->res;
    io_uring_cqe_seen(&ring_, done);
    if (result < 0) return -result;
    return result == static_cast<int>(length) ? 0 : EIO;
  }

  const size_t room_;
  io_uring ring_ = {};
  int file_ = -1;
  unsigned char* peer_ = nullptr;
};

// The control's: one table slot per hash of an address.
class NaiveCache {
 public:
  explicit NaiveCache(Device& device) : device_(device) {
    if (io_uring_register_buffers_sparse(device.ring(), kSlots) != 0) {
      skip("io_uring has no sparse table of fixed buffers here (Linux 5.19)");
    }
  }
  // The key of the pages that hold the buffer; -1 if they cannot be registered.
  int key_of(const void* address, size_t length) {
    const uintptr_t start = reinterpret_cast<uintptr_t>(address) & ~(kPage - 1);
    const uintptr_t end =
        (reinterpret_cast<uintptr_t>(address) + length + kPage - 1) & ~(kPage - 1);
    const auto slot = static_cast<unsigned>((start >> 12) * 0x9E3779B97F4A7C15U >> 52);
    Entry& entry = entries_[slot];
    if (entry.start == start && entry.length >= end - start) return static_cast<int>(slot);
    iovec buffer{reinterpret_cast<void*>(start), end - start};
    __u64 tag = 0;
    entry = {};
    if (io_uring_register_buffers_update_tag(device_.ring(), slot, &buffer, &tag, 1) != 1) {
      return -1;
    }
    entry = {start, end - start};
    return static_cast<int>(slot);
  }
  // What a cache does when it is told of every free().
  void forget() {
    for (Entry& entry : entries_) entry = {};
  }

 private:
  static constexpr unsigned kSlots = 1 << 12;
  struct Entry {
    uintptr_t start = 0;
    size_t length = 0;
  };
  Device& device_;
  Entry entries_[kSlots];
};

// A device with its keys: a domain on its ring, or the naive cache.
class KeyedDevice {
 public:
  KeyedDevice(size_t room, Verdict& verdict) : device_(room) {
    if (library().loaded()) {
      domain_ = open_domain(device_.ring_fd(), verdict);
    } else {
      cache_ = std::make_unique<NaiveCache>(device_);
    }
  }
  ~KeyedDevice() {
    if (domain_ != nullptr) domains().close(domain_);
  }
  KeyedDevice(const KeyedDevice&) = delete;
  KeyedDevice& operator=(const KeyedDevice&) = delete;

  Device& device() { return device_; }
  rdm_domain* domain() { return domain_; }
  // Why the last key_of() of this thread found none.
  const char* why() const {
    return cache_ != nullptr ? "the kernel refused it" : domains().last_error();
  }

  // -1 if there is none.
  int key_of(const void* address, size_t length) {
    if (cache_ != nullptr) return cache_->key_of(address, length);
    rdm_mr found{};
    if (domains().lookup(domain_, address, length, &found) != RDM_OK) return -1;
    return static_cast<int>(found.lkey);
  }
  // A buffer was freed; a domain need not know.
  void forget() {
    if (cache_ != nullptr) cache_->forget();
  }

 private:
  Device device_;
  rdm_domain* domain_ = nullptr;
  std::unique_ptr<NaiveCache> cache_;
};

// The error with which the kernel refuses to register this memory with a ring of its own; 0 if it
// does not refuse.
inline int kernel_refuses(void* memory, size_t length) {
  io_uring ring{};
  if (io_uring_queue_init(1, &ring, 0) != 0) skip("no second io_uring here");
  const iovec buffer{memory, length};
  const int status = io_uring_register_buffers(&ring, &buffer, 1);
  io_uring_queue_exit(&ring);
  return -status;
}

inline uint64_t pinned_by_kernel() { return kib_field("/proc/self/status", "VmPin:"); }

// The kernel may release pins with a delay; in Linux 6.1 a second or more. False if not within that
// many seconds.
inline bool comes_to(uint64_t expected, uint64_t (*figure)(), int seconds = 10) {
  for (int i = 0; i < 100 * seconds && figure() != expected; ++i) usleep(10000);
  return figure() == expected;
}

// Memory that stays allocated, all of it written.
inline void* grow(size_t bytes) {
  void* got = malloc(bytes);
  if (got == nullptr) refused("out of memory");
  memset(got, 1, bytes);
  return got;
}

// Bytes that depend on the seed and their offset: no two messages are the same.
class Pattern {
 public:
  explicit Pattern(uint64_t seed) : seed_(seed * 0x9E3779B97F4A7C15U | 1) {}
  void fill(void* out, size_t length) const {
    auto* bytes = static_cast<unsigned char*>(out);
    size_t i = 0;
    for (; i + sizeof(uint64_t) <= length; i += sizeof(uint64_t)) {
      const uint64_t word = word_at(i);
      memcpy(bytes + i, &word, sizeof word);
    }
    const uint64_t last = word_at(i);
    memcpy(bytes + i, &last, length - i);
  }
  // The first offset that differs; `length` if none.
  size_t mismatch(const void* in, size_t length) const {
    const auto* bytes = static_cast<const unsigned char*>(in);
    for (size_t i = 0; i < length; i += sizeof(uint64_t)) {
      const uint64_t word = word_at(i);
      const size_t part = length - i < sizeof word ? length - i : sizeof word;
      if (memcmp(bytes + i, &word, part) != 0) return i;
    }
    return length;
  }
  // Whether the eight bytes at that offset, a multiple of eight, match the pattern.
  bool is_at(const void* in, size_t i) const {
    const uint64_t word = word_at(i);
    return memcmp(static_cast<const unsigned char*>(in) + i, &word, sizeof word) == 0;
  }

 private:
  uint64_t word_at(size_t i) const { return seed_ * (i + 0x632BE59BD9B4E019U); }
  uint64_t seed_;
};

}  // namespace probe
