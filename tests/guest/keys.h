// Where a test gets its keys. With the library preloaded: from a domain. Without it, as the
// control: from a naive registration cache, which registers a buffer when first seen, remembers it
// by address, and never learns of free().
#pragma once

#include <infiniband/verbs.h>

#include <map>

#include "tests/guest/rc_pair.h"
#include "tests/integration/probe.h"
#include "tests/integration/regcache/with_reason.h"

namespace guest {

inline constexpr int kAllRights =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

// The library's domain functions; null in a control.
struct Domains {
  decltype(rdm_domain_open_verbs)* open =
      probe::symbol<decltype(rdm_domain_open_verbs)>("rdm_domain_open_verbs");
  decltype(rdm_domain_close)* close = probe::symbol<decltype(rdm_domain_close)>("rdm_domain_close");
  decltype(rdm_lookup)* lookup = probe::symbol<decltype(rdm_lookup)>("rdm_lookup");
  decltype(rdm_get)* get = probe::symbol<decltype(rdm_get)>("rdm_get");
  decltype(rdm_put)* put = probe::symbol<decltype(rdm_put)>("rdm_put");
  decltype(rdm_alloc)* alloc = probe::symbol<decltype(rdm_alloc)>("rdm_alloc");
  decltype(rdm_free)* free = probe::symbol<decltype(rdm_free)>("rdm_free");
};

inline const Domains& domains() {
  static const Domains found;
  return found;
}

// Ends the program as broken if the domain cannot be opened.
inline rdm_domain* open_domain(const RcPair& pair, int access, unsigned flags) {
  probe::DomainOptions options(flags);
  rdm_domain* domain = nullptr;
  const int status = domains().open(pair.domain(), access, &options, &domain);
  if (status == RDM_OK) return domain;
  printf("BROKEN: no domain: status %d: %s\n", status, options.why);
  fflush(stdout);
  _exit(probe::kBroken);
}

// Not thread-safe.
class Keys {
 public:
  explicit Keys(const RcPair& pair) : pd_(pair.domain()) {
    if (probe::library().loaded()) domain_ = open_domain(pair, kAllRights, RDM_DOMAIN_SHARE_HEAP);
  }
  ~Keys() {
    if (domain_ != nullptr) (void)domains().close(domain_);
    for (const auto& entry : cache_) ibv_dereg_mr(entry.second);
  }
  Keys(const Keys&) = delete;
  Keys& operator=(const Keys&) = delete;

  rdm_domain* domain() const { return domain_; }

  // The same for memory outside malloc; put() releases the reference.
  bool get(const void* address, size_t length, rdm_mr* out) {
    if (domain_ == nullptr) return find(address, length, out);
    return domains().get(domain_, address, length, out) == RDM_OK;
  }
  bool put(const rdm_mr& mr) { return domain_ == nullptr || domains().put(domain_, &mr) == RDM_OK; }

  // False if there is no key.
  bool find(const void* address, size_t length, rdm_mr* out) {
    if (domain_ != nullptr) return domains().lookup(domain_, address, length, out) == RDM_OK;
    ibv_mr*& known = cache_[address];
    if (known != nullptr && known->length < length) {
      ibv_dereg_mr(known);
      known = nullptr;
    }
    if (known == nullptr) {
      known = ibv_reg_mr(pd_, const_cast<void*>(address), length, kAllRights);
    }
    if (known == nullptr) return cache_.erase(address), false;
    *out = {known->addr, known->length, known->lkey, known->rkey, known};
    return true;
  }

 private:
  ibv_pd* pd_;
  rdm_domain* domain_ = nullptr;
  std::map<const void*, ibv_mr*> cache_;
};

}  // namespace guest
