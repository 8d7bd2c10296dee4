// What the threads of `together` share: a device, three ways to it, and what to expect of them.
#pragma once

#include <atomic>

#include "fake_libibverbs.h"
#include "include/rdmalloc/backend.h"
#include "tests/integration/regcache/preload/verbs/pages_device.h"
#include "tests/integration/regcache/preload/verbs/watchdog.h"
// Defines a global `verdict`, whose name other headers use for parameters.
#include "tests/integration/regcache/preload/ofi/ofi_speaker.h"

namespace together {

inline constexpr int kLocal = IBV_ACCESS_LOCAL_WRITE;
// Found before any thread may wait for the dynamic linker.
inline const auto open_domain = probe::symbol<decltype(rdm_domain_open)>("rdm_domain_open");
inline const auto close_domain = probe::symbol<decltype(rdm_domain_close)>("rdm_domain_close");
inline const auto get = probe::symbol<decltype(rdm_get)>("rdm_get");
inline const auto put = probe::symbol<decltype(rdm_put)>("rdm_put");
inline const auto last_error = probe::symbol<decltype(rdm_last_error)>("rdm_last_error");
inline const auto lookup = probe::symbol<decltype(rdm_lookup)>("rdm_lookup");

inline constexpr size_t kMostPages = 400;  // of a buffer

inline probe::PagesDevice& device() {
  static probe::PagesDevice one(kMostPages * probe::kPage);
  return one;
}

// The epoch of the device's room and the process's limits: odd while they are low. A refusal while
// they are low or changing is excused.
inline std::atomic<uint64_t> limit_epoch{0};

class Excuse {
 public:
  bool holds() const { return epoch_ % 2 != 0 || limit_epoch != epoch_; }

 private:
  const uint64_t epoch_ = limit_epoch;
};

// A way to register memory for one use. acquire() returns the device's pages that a transfer of the
// range would use; null if refused.
class Way {
 public:
  virtual ~Way() = default;
  virtual const char* name() const = 0;
  virtual void* acquire(void* address, size_t length, void** handle) = 0;
  virtual void release(void* handle) = 0;
  // The reason of the last refusal.
  virtual const char* why() const { return strerror(errno); }
};

// The program's own ibv_reg_mr.
class Verbs : public Way {
 public:
  explicit Verbs(ibv_context* context) : pd_(ibv_alloc_pd(context)) {}
  ~Verbs() override {
    if (ibv_dealloc_pd(pd_) != 0) probe::verdict.broken("a protection domain is in use for ever");
  }
  const char* name() const override { return "ibv_reg_mr"; }
  void* acquire(void* address, size_t length, void** handle) override {
    ibv_mr* const mr = ibv_reg_mr(pd_, address, length, kLocal);
    *handle = mr;
    if (mr == nullptr) return nullptr;
    void* const pages = fake_pages_of(pd_, mr->lkey, address, length);
    if (pages == nullptr) probe::verdict.broken("ibv_reg_mr: a key of no registration that has it");
    return pages;
  }
  void release(void* handle) override {
    if (handle != nullptr && ibv_dereg_mr(static_cast<ibv_mr*>(handle)) != 0) {
      probe::verdict.broken("ibv_dereg_mr fails");
    }
  }
  ibv_pd* pd() const { return pd_; }

 private:
  ibv_pd* const pd_;
};

// A library over verbs: its driver calls ibv_reg_mr by name, under its own lock.
class Driver {
 public:
  explicit Driver(ibv_context* context) : verbs_(context) {}
  void* add(const void* address, size_t length) {
    const std::lock_guard hold(lock);
    return ibv_reg_mr(verbs_.pd(), const_cast<void*>(address), length, kLocal);
  }
  void remove(void* registration) {
    const std::lock_guard hold(lock);
    verbs_.release(registration);
  }
  void* pages_of(uint32_t lkey, const void* address, size_t length) const {
    return fake_pages_of(verbs_.pd(), lkey, address, length);
  }
  std::mutex lock;

 private:
  Verbs verbs_;
};

// rdm_get with a domain over such a library.
class Nested : public Way {
 public:
  explicit Nested(ibv_context* context) : driver_(context) {
    const rdm_backend backend{sizeof(rdm_backend), "nested",   tell_limits,
                              register_by_name,    deregister, nullptr};
    rdm_domain_options options{};
    options.size = sizeof options;
    options.flags = RDM_DOMAIN_PARTIAL;         // limits may be low
    options.foreign_bytes = uint64_t{1} << 30;  // a share would be of the limit that there is now
    const Excuse excuse;
    const int status = open_domain(&backend, &driver_, &options, &domain_);
    if (status != RDM_OK && !excuse.holds())
      probe::verdict.broken("rdm_domain_open: status %d", status);
  }
  ~Nested() override {
    if (domain_ != nullptr && close_domain(domain_) != RDM_OK) {
      probe::verdict.broken("rdm_domain_close fails");
    }
  }
  const char* name() const override { return "rdm_get"; }
  void* acquire(void* address, size_t length, void** handle) override {
    auto* const mr = new rdm_mr{};
    *handle = mr;
    if (domain_ == nullptr || get(domain_, address, length, mr) != RDM_OK) {
      delete mr;
      *handle = nullptr;
      return nullptr;
    }
    return pages_of(*mr, address, length);
  }
  void release(void* handle) override {
    if (handle == nullptr) return;
    if (put(domain_, static_cast<rdm_mr*>(handle)) != RDM_OK) {
      probe::verdict.broken("rdm_put fails");
    }
    delete static_cast<rdm_mr*>(handle);
  }
  const char* why() const override { return last_error(); }
  bool is_open() const { return domain_ != nullptr; }
  // rdm_lookup: null if there is no key.
  void* look_up(void* address, size_t length) {
    rdm_mr mr{};
    if (lookup(domain_, address, length, &mr) != RDM_OK) return nullptr;
    return pages_of(mr, address, length);
  }

 private:
  static int tell_limits(void*, rdm_backend_limits*) { return RDM_OK; }
  static int register_by_name(void* context, const rdm_backend_request* request,
                              rdm_backend_key* out, char*, size_t) {
    auto* const mr =
        static_cast<ibv_mr*>(static_cast<Driver*>(context)->add(request->base, request->length));
    if (mr == nullptr) return RDM_SYSTEM;
    *out = {mr->lkey, mr->rkey, mr};
    return RDM_OK;
  }
  static int deregister(void* context, const rdm_backend_key* key) {
    static_cast<Driver*>(context)->remove(key->handle);
    return RDM_OK;
  }
  void* pages_of(const rdm_mr& mr, const void* address, size_t length) const {
    void* const pages = driver_.pages_of(mr.lkey, address, length);
    if (pages == nullptr) probe::verdict.broken("a key of no registration that has the buffer");
    return pages;
  }

  Driver driver_;
  rdm_domain* domain_ = nullptr;
};

// libfabric, whose provider registers with the same device by name.
class Fabric : public Way {
 public:
  // Called before the first one is created.
  static void set_up(Driver* driver) {
    driver_ = driver;
    static constexpr FakeOfiDevice kDevice = {
        [](const void* address, size_t length) { return driver_->add(address, length); },
        [](void* registration) { driver_->remove(registration); }};
    fake_ofi_set_device(&kDevice);
  }
  const char* name() const override { return "fi_mr_reg"; }
  void* acquire(void* address, size_t length, void** handle) override {
    fid_mr* mr = nullptr;
    const int status =
        fi_mr_reg(speaker_.domain(), address, length, FI_SEND, 0, 0, 0, &mr, nullptr);
    *handle = mr;
    if (status != 0) {
      *handle = nullptr;
      return nullptr;
    }
    auto* const verbs =
        static_cast<ibv_mr*>(fake_ofi_registration_of(fi_mr_desc(mr), address, length));
    void* const pages =
        verbs == nullptr ? nullptr : driver_->pages_of(verbs->lkey, address, length);
    if (pages == nullptr) probe::verdict.broken("fi_mr_reg: no registration that has the buffer");
    return pages;
  }
  void release(void* handle) override {
    if (handle != nullptr && fi_close(&static_cast<fid_mr*>(handle)->fid) != 0) {
      probe::verdict.broken("a memory region does not close");
    }
  }

 private:
  static inline Driver* driver_ = nullptr;
  probe::Speaker speaker_{"verbs"};
};

}  // namespace together
