// A program that has a UCP context and a libfabric domain at once: each region is registered once
// with each, in whatever order they come and go.
#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_errno.h>

#include "tests/integration/regcache/preload/ucx/ucx_peer.h"
#include "tests/integration/regcache/with_reason.h"

namespace {

constexpr size_t kMiB = size_t{1} << 20;

probe::Verdict verdict;

const auto open_ofi = probe::symbol<decltype(rdm_domain_open_ofi)>("rdm_domain_open_ofi");
const auto close_domain = probe::symbol<decltype(rdm_domain_close)>("rdm_domain_close");
const auto lookup = probe::symbol<decltype(rdm_lookup)>("rdm_lookup");

// libfabric's over TCP.
class Fabric {
 public:
  Fabric() {
    fi_info* hints = fi_allocinfo();
    hints->caps = FI_MSG | FI_RMA;
    hints->ep_attr->type = FI_EP_MSG;
    hints->fabric_attr->prov_name = strdup("tcp");
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_VIRT_ADDR;
    need(fi_getinfo(FI_VERSION(1, 13), "127.0.0.1", nullptr, FI_SOURCE, hints, &info_));
    need(fi_fabric(info_->fabric_attr, &fabric_, nullptr));
    need(fi_domain(fabric_, info_, &domain_, nullptr));
    fi_freeinfo(hints);
  }
  ~Fabric() {
    fi_close(&domain_->fid);
    fi_close(&fabric_->fid);
    fi_freeinfo(info_);
  }
  Fabric(const Fabric&) = delete;
  Fabric& operator=(const Fabric&) = delete;

  fid_domain* domain() { return domain_; }

 private:
  static void need(int status) {
    if (status == -FI_ENODATA) probe::skip("libfabric has no such provider");
    if (status != 0) probe::refused(fi_strerror(-status));
  }

  fi_info* info_ = nullptr;
  fid_fabric* fabric_ = nullptr;
  fid_domain* domain_ = nullptr;
};

void check_books(const char* when, uint64_t domains) {
  rdm_stats books = probe::stats();
  for (int i = 0; i < 200 && !probe::registers_all(books, domains); ++i) {
    usleep(10'000);
    books = probe::stats();
  }
  if (books.domains != domains || !probe::registers_all(books, domains)) {
    verdict.broken("%s: %lu bytes in %lu domains, of %lu pinned", when, books.registered_bytes,
                   books.domains, books.pinned_bytes);
  }
}

rdm_domain* attach(Fabric& fabric) {
  probe::DomainOptions options;
  rdm_domain* domain = nullptr;
  probe::need_domain(open_ofi(fabric.domain(), 0, &options, &domain), options.why);
  return domain;
}

}  // namespace

int main() {
  if (!probe::library().loaded() || open_ofi == nullptr) probe::skip("no library with libfabric");
  Fabric fabric;
  ucp_context_h context = probe::make_context(false);
  rdm_domain* domain = attach(fabric);
  for (int i = 0; i < 20; ++i) {
    void* buffer = malloc(kMiB << (i % 4));
    memset(buffer, i, kMiB << (i % 4));
    rdm_mr found{};
    if (lookup(domain, buffer, kMiB, &found) != RDM_OK) verdict.broken("buffer %d has no key", i);
    if (i % 2 == 0) free(buffer);
  }
  check_books("both", 2);
  const rdm_stats books = probe::stats();
  // A region that lost all its pages was registered too, and is a region no more.
  if (books.registrations < 2 * books.regions ||
      (books.retired_bytes == 0 && books.registrations != 2 * books.regions)) {
    verdict.broken("%lu regions were registered %lu times", books.regions, books.registrations);
  }
  ucp_cleanup(context);
  check_books("libfabric's alone", 1);
  if (close_domain(domain) != RDM_OK) verdict.broken("closing libfabric's failed");
  check_books("none", 0);
  return verdict.status();
}
