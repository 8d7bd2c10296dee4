/* rdmalloc for C++17: a domain that closes itself, and memory for peers as an allocator and as a
 * polymorphic memory resource. Everything here is inline and reports errors as exceptions; the C
 * functions below it do not throw. Names follow the standard library. */
#ifndef RDMALLOC_RDMALLOC_HPP
#define RDMALLOC_RDMALLOC_HPP

#include <cstddef>
#include <limits>
#include <memory_resource>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include <rdmalloc/backend.h>
#include <rdmalloc/rdmalloc.h>

namespace rdmalloc {

/* Why a domain could not be opened: what() is the sentence, status() the RDM_* code. */
class error : public std::runtime_error {
 public:
  error(int status, const std::string& why)
      : std::runtime_error(why.empty() ? std::string(rdm_strerror(status)) : why),
        status_(status) {}
  int status() const noexcept { return status_; }

 private:
  int status_;
};

/* An open domain, closed by its destructor. Movable, not copyable. Any thread may look up; close or
 * move it only while no thread does. */
class domain {
 public:
  domain() = default;

  /* ring_fd: the caller's, or -1. Throws rdmalloc::error. */
  static domain io_uring(int ring_fd, unsigned flags = 0) {
    return open(flags, 0, [ring_fd](const rdm_domain_options* options, rdm_domain** out) {
      return rdm_domain_open_io_uring(ring_fd, options, out);
    });
  }
  /* access: IBV_ACCESS_* flags. */
  static domain verbs(ibv_pd* pd, int access, unsigned flags = 0) {
    return open(flags, 0, [pd, access](const rdm_domain_options* options, rdm_domain** out) {
      return rdm_domain_open_verbs(pd, access, options, out);
    });
  }
  /* access: RDM_LOCAL_WRITE and the other RDM_* rights. */
  static domain custom(const rdm_backend& backend, void* context, unsigned access = 0,
                       unsigned flags = 0) {
    return open(flags, access, [&](const rdm_domain_options* options, rdm_domain** out) {
      return rdm_domain_open(&backend, context, options, out);
    });
  }

  domain(domain&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  domain& operator=(domain&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~domain() { (void)close(); }

  /* The status of rdm_domain_close; RDM_OK when nothing was open. */
  int close() noexcept {
    rdm_domain* const handle = std::exchange(handle_, nullptr);
    return handle == nullptr ? int(RDM_OK) : rdm_domain_close(handle);
  }

  /* The memory region that covers all of the buffer; nothing if none does. */
  std::optional<rdm_mr> lookup(const void* address, std::size_t length) const noexcept {
    rdm_mr mr;
    if (rdm_lookup(handle_, address, length, &mr) != RDM_OK) return std::nullopt;
    return mr;
  }

  rdm_domain* get() const noexcept { return handle_; }
  explicit operator bool() const noexcept { return handle_ != nullptr; }

 private:
  template <typename Open>
  static domain open(unsigned flags, unsigned access, Open&& call) {
    char why[512] = "";
    rdm_domain_options options{};
    options.size = sizeof options;
    options.flags = flags;
    options.access = access;
    options.error = why;
    options.error_size = sizeof why;
    domain opened;
    const int status = call(&options, &opened.handle_);
    if (status != RDM_OK) throw error(status, why);
    return opened;
  }

  rdm_domain* handle_ = nullptr;
};

/* Exposed memory for containers. Each allocation takes whole pages: use it for few and large ones.
 * Throws std::bad_alloc. Stateless; all are equal. */
template <typename T>
class exposed_allocator {
 public:
  using value_type = T;

  exposed_allocator() = default;
  template <typename U>
  exposed_allocator(const exposed_allocator<U>&) noexcept {}

  T* allocate(std::size_t count) {
    if (count > std::numeric_limits<std::size_t>::max() / sizeof(T)) {
      throw std::bad_array_new_length();
    }
    void* memory = rdm_alloc(count * sizeof(T), alignof(T), RDM_EXPOSED);
    if (memory == nullptr) throw std::bad_alloc();
    return static_cast<T*>(memory);
  }
  void deallocate(T* memory, std::size_t) noexcept { rdm_free(memory); }

  template <typename U>
  bool operator==(const exposed_allocator<U>&) const noexcept {
    return true;
  }
  template <typename U>
  bool operator!=(const exposed_allocator<U>&) const noexcept {
    return false;
  }
};

/* The same as a memory resource: put a std::pmr::monotonic_buffer_resource or a pool over it for
 * small objects. */
class exposed_resource : public std::pmr::memory_resource {
  void* do_allocate(std::size_t bytes, std::size_t alignment) override {
    void* memory = rdm_alloc(bytes, alignment, RDM_EXPOSED);
    if (memory == nullptr) throw std::bad_alloc();
    return memory;
  }
  void do_deallocate(void* memory, std::size_t, std::size_t) override { rdm_free(memory); }
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
    return dynamic_cast<const exposed_resource*>(&other) != nullptr;
  }
};

} /* namespace rdmalloc */

#endif
