// Foreign memory in these tests: a domain on a ring whose device reads and writes by key, shared by
// threads, and the expected contents. A byte is stale when the device and the program see different
// values: the device has the pages present at registration, the program the current ones.
#pragma once

#include <mutex>

#include "tests/integration/regcache/uring_device.h"
#include "tests/integration/regcache/with_reason.h"

namespace probe {

struct ForeignLibrary {
  decltype(rdm_get)* get = symbol<decltype(rdm_get)>("rdm_get");
  decltype(rdm_put)* put = symbol<decltype(rdm_put)>("rdm_put");
  decltype(rdm_invalidate)* invalidate = symbol<decltype(rdm_invalidate)>("rdm_invalidate");
  decltype(rdm_monitor)* monitor = symbol<decltype(rdm_monitor)>("rdm_monitor");
  decltype(rdm_last_error)* last_error = symbol<decltype(rdm_last_error)>("rdm_last_error");
  decltype(rdm_pieces_begin)* pieces_begin = symbol<decltype(rdm_pieces_begin)>("rdm_pieces_begin");
  decltype(rdm_pieces_next)* pieces_next = symbol<decltype(rdm_pieces_next)>("rdm_pieces_next");
  decltype(rdm_pieces_done)* pieces_done = symbol<decltype(rdm_pieces_done)>("rdm_pieces_done");
  decltype(rdm_strerror)* strerror = symbol<decltype(rdm_strerror)>("rdm_strerror");
};

inline const ForeignLibrary& foreign() {
  static const ForeignLibrary found;
  if (found.get == nullptr) skip("needs the library");
  return found;
}

// Options of a foreign domain; the rest are defaults.
struct ForeignLimits {
  uint64_t bytes = 0;
  unsigned count = 0;
  unsigned wait_ms = 0;
  unsigned flags = 0;
  unsigned access = 0;
};

inline rdm_domain* open_foreign(int ring_fd, const ForeignLimits& limits, Verdict& verdict) {
  DomainOptions options(limits.flags);
  options.access = limits.access;
  options.foreign_bytes = limits.bytes;
  options.foreign_count = limits.count;
  options.foreign_wait_ms = limits.wait_ms;
  return open_domain(ring_fd, verdict, options);
}

// Not every machine offers the monitor that a test requests.
inline void need_monitor(const char* wanted) {
  const char* why = "";
  const char* found = foreign().monitor(&why);
  printf("monitor %s: %s\n", found, why);
  if (strcmp(wanted, "any") == 0 || strcmp(found, wanted) == 0) return;
  static char reason[256];
  snprintf(reason, sizeof reason, "%s is not in force: %s", wanted, why);
  skip(reason);
}

// The program's own pages, small ones: a huge page is charged as a whole.
inline char* map_pages(size_t length, int flags = MAP_PRIVATE) {
  void* got = mmap(nullptr, length, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);
  if (got == MAP_FAILED) skip("out of memory");
  (void)madvise(got, length, MADV_NOHUGEPAGE);
  return static_cast<char*>(got);
}

// What memory should hold: zeros, as in new pages, or bytes derived from a seed.
class Content {
 public:
  static Content zero() { return Content(); }
  explicit Content(uint64_t seed) : pattern_(seed), zero_(false) {}
  void fill(void* out, size_t length) const {
    if (zero_) {
      memset(out, 0, length);
    } else {
      pattern_.fill(out, length);
    }
  }
  // The first offset that differs, or one close to it; `length` if none.
  size_t mismatch(const void* in, size_t length) const {
    if (!zero_) return pattern_.mismatch(in, length);
    const auto* bytes = static_cast<const unsigned char*>(in);
    for (size_t i = 0; i < length; ++i) {
      if (bytes[i] != 0) return i;
    }
    return length;
  }

 private:
  Content() : pattern_(0), zero_(true) {}
  Pattern pattern_;
  bool zero_;
};

enum class Outcome {
  kRight,
  kStale,  // the device sent other bytes than the program has
  kLost,   // the program has other bytes than the device wrote
  kNoKey,  // rdm_get refused; see `status` and rdm_last_error()
  kNotSent
};

// A device and its domain. One transfer at a time; get and put need no lock.
class ForeignDevice {
 public:
  ForeignDevice(size_t room, const ForeignLimits& limits, Verdict& verdict)
      : device_(room), domain_(open_foreign(device_.ring_fd(), limits, verdict)) {
    if (domain_ == nullptr) _exit(verdict.status());
  }
  ~ForeignDevice() {
    if (domain_ != nullptr) domains().close(domain_);
  }
  ForeignDevice(const ForeignDevice&) = delete;
  ForeignDevice& operator=(const ForeignDevice&) = delete;

  rdm_domain* domain() const { return domain_; }
  // Closes early, to check the result.
  int close() {
    const int status = domains().close(domain_);
    if (status == RDM_OK) domain_ = nullptr;
    return status;
  }

  int get(const void* address, size_t length, rdm_mr* out) const {
    return foreign().get(domain_, address, length, out);
  }
  int put(const rdm_mr& mr) const { return foreign().put(domain_, &mr); }

  // What the memory holds, as the device reads it through this registration.
  Outcome send(const rdm_mr& mr, const void* address, size_t length, const Content& content) {
    const std::lock_guard hold(mutex_);
    if (device_.send(mr.lkey, address, length) != 0) return Outcome::kNotSent;
    return content.mismatch(device_.peer(), length) == length ? Outcome::kRight : Outcome::kStale;
  }
  // The same if the program does not know the contents: the device must read what the program
  // reads.
  Outcome send_as_is(const rdm_mr& mr, const void* address, size_t length) {
    const std::lock_guard hold(mutex_);
    if (device_.send(mr.lkey, address, length) != 0) return Outcome::kNotSent;
    return memcmp(device_.peer(), address, length) == 0 ? Outcome::kRight : Outcome::kStale;
  }
  // What the program reads after the device wrote.
  Outcome receive(const rdm_mr& mr, void* address, size_t length, const Content& content) {
    const std::lock_guard hold(mutex_);
    content.fill(device_.peer(), length);
    if (device_.receive(mr.lkey, address, length) != 0) return Outcome::kNotSent;
    return content.mismatch(address, length) == length ? Outcome::kRight : Outcome::kLost;
  }

  // The same with a get before and a put after.
  Outcome send(const void* address, size_t length, const Content& content) {
    rdm_mr mr{};
    if (get(address, length, &mr) != RDM_OK) return Outcome::kNoKey;
    const Outcome outcome = send(mr, address, length, content);
    (void)put(mr);
    return outcome;
  }
  Outcome receive(void* address, size_t length, const Content& content) {
    rdm_mr mr{};
    if (get(address, length, &mr) != RDM_OK) return Outcome::kNoKey;
    const Outcome outcome = receive(mr, address, length, content);
    (void)put(mr);
    return outcome;
  }

 private:
  std::mutex mutex_;
  Device device_;
  rdm_domain* domain_;
};

// Whether rdm_get must fail there: Linux before 6.5 registers neither System V segments nor what
// dlopen() maps, nor memory of a file together with any other.
inline bool kernel_refuses_file(const void* address, size_t length) {
  const int error = kernel_refuses(const_cast<void*>(address), length);
  return error == EOPNOTSUPP || error == EINVAL;
}

// Counts errors, with stale bytes separate: a control must fail through those and nothing else.
class Staleness {
 public:
  // True if all is right. `what`: the change that came before.
  bool check(Outcome outcome, const char* what, const void* address, size_t length, uint64_t seed) {
    if (outcome == Outcome::kRight) return true;
    if (outcome == Outcome::kNoKey && kernel_refuses_file(address, length)) return true;
    if (outcome == Outcome::kStale || outcome == Outcome::kLost) {
      __atomic_fetch_add(&stale_, 1, __ATOMIC_RELAXED);
      verdict_.broken("seed %lu: after %s: stale bytes in %zu bytes at %p, %s", seed, what, length,
                      address, outcome == Outcome::kStale ? "sent" : "where they were received");
    } else {
      verdict_.broken("seed %lu: after %s: %zu bytes at %p: %s", seed, what, length, address,
                      outcome == Outcome::kNoKey ? foreign().last_error() : "nothing was sent");
    }
    return false;
  }
  Verdict& verdict() { return verdict_; }
  uint64_t stale() const { return __atomic_load_n(&stale_, __ATOMIC_RELAXED); }
  int status() const {
    if (stale() != 0) return kBroken;
    return verdict_.status() == kHolds ? kHolds : kOtherwiseBroken;
  }

 private:
  static constexpr int kOtherwiseBroken = 3;
  Verdict verdict_;
  uint64_t stale_ = 0;
};

}  // namespace probe
