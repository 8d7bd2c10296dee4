// A program that uses only libfabric, over the fake one: a fabric and a domain, and the cost of its
// registrations.
#pragma once

#include <rdma/fi_errno.h>

#include "tests/integration/probe.h"
#include "tests/integration/regcache/preload/ofi/ofi_fake_libfabric.h"

namespace probe {

inline constexpr size_t kLargest = size_t{1} << 20;
inline constexpr size_t kBytes = size_t{64} << 10;

inline Verdict verdict;

class Speaker {
 public:
  explicit Speaker(const char* provider = "verbs;ofi_rxm", fi_threading threading = FI_THREAD_SAFE,
                   int mr_mode = 0) {
    fi_domain_attr domain_attributes{};
    domain_attributes.mr_mode = mr_mode;
    domain_attributes.threading = threading;
    info_.domain_attr = &domain_attributes;
    fi_fabric_attr attributes{};
    attributes.prov_name = name_;
    snprintf(name_, sizeof name_, "%s", provider);
    info_.fabric_attr = &attributes;
    if (fi_fabric(&attributes, &fabric_, nullptr) != 0 ||
        fi_domain(fabric_, &info_, &domain_, nullptr) != 0) {
      refused("the made-up libfabric has no domain");
    }
  }
  ~Speaker() { close(); }
  Speaker(const Speaker&) = delete;
  Speaker& operator=(const Speaker&) = delete;

  fid_domain* domain() const { return domain_; }

  void close() {
    if (fabric_ == nullptr) return;
    if (const int status = fi_close(&domain_->fid)) verdict.broken("the domain: error %d", -status);
    fi_close(&fabric_->fid);
    fabric_ = nullptr;
  }

  // The same as a provider for its own pools, by the two calls that take flags and addresses.
  void use_past_the_cache(void* address, size_t length) {
    const iovec piece{address, length};
    for (const bool in_pieces : {false, true}) {
      fid_mr* mr = nullptr;
      const int status =
          in_pieces
              ? fi_mr_regv(domain_, &piece, 1, FI_SEND, 0, 0, kFakeOfiNoCache, &mr, nullptr)
              : fi_mr_reg(domain_, address, length, FI_SEND, 0, 0, kFakeOfiNoCache, &mr, nullptr);
      if (status != 0) return verdict.broken("registering: error %d", -status);
      if (fi_close(&mr->fid) != 0) verdict.broken("a memory region does not close");
    }
  }

  // Registers and deregisters, as for a message.
  void use(void* address, size_t length, int how = 0) {
    if (const int status = try_use(address, length, how)) {
      verdict.broken("registering: error %d", -status);
    }
  }
  // The same, if it is not refused: returns libfabric's status.
  int try_use(void* address, size_t length, int how) {
    fid_mr* mr = nullptr;
    const iovec piece{address, length};
    fi_mr_attr attributes{};
    attributes.mr_iov = &piece;
    attributes.iov_count = 1;
    attributes.access = FI_SEND;
    int status = 0;
    switch (how % 3) {
      case 0:
        status = fi_mr_reg(domain_, address, length, FI_SEND, 0, 0, 0, &mr, nullptr);
        break;
      case 1:
        status = fi_mr_regv(domain_, &piece, 1, FI_SEND, 0, 0, 0, &mr, nullptr);
        break;
      default:
        status = fi_mr_regattr(domain_, &attributes, 0, &mr);
        break;
    }
    if (status != 0) return status;
    if (fi_mr_key(mr) == 0 || fi_mr_desc(mr) == nullptr) verdict.broken("no key, no descriptor");
    if (fi_close(&mr->fid) != 0) verdict.broken("a memory region does not close");
    return 0;
  }

  // Registrations with the device that this causes: all, or those of some memory. The heap may grow
  // at any time, and another thread registers its new regions.
  template <typename Do>
  uint64_t cost(Do act) {
    const uint64_t before = fake_ofi_books().registered;
    act();
    return fake_ofi_books().registered - before;
  }
  template <typename Do>
  uint64_t cost_of(const void* memory, Do act) {
    const uint64_t before = fake_ofi_registrations_of(memory);
    act();
    return fake_ofi_registrations_of(memory) - before;
  }

 private:
  char name_[32];
  fi_info info_{};
  fid_fabric* fabric_ = nullptr;
  fid_domain* domain_ = nullptr;
};

struct Case {
  const char* name;
  void (*run)();
};

// Runs the case that the first argument names; returns the exit status.
template <size_t kCount>
int run_case(const Case (&cases)[kCount], int argc, char** argv) {
  for (const Case& each : cases) {
    if (argc < 2 || strcmp(argv[1], each.name) != 0) continue;
    each.run();
    return verdict.status();
  }
  printf("no such case\n");
  return 2;
}

}  // namespace probe
