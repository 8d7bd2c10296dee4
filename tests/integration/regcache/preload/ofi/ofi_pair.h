// Two endpoints of the real libfabric in one process, on one domain, and writes from one to the
// other.
#pragma once

#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <time.h>

#include "tests/integration/probe.h"

namespace probe {

inline constexpr int kWaitSeconds = 20;

// What libfabric needs to know of a buffer.
struct OfiMemory {
  void* address;
  fid_mr* mr;  // that covers it
  void* base;  // where that begins
};

// Ends the program: if libfabric itself fails there is nothing to judge.
inline void need(int status, const char* what) {
  if (status == 0) return;
  printf("BROKEN: %s: %s\n", what, fi_strerror(-status));
  fflush(stdout);
  _exit(kBroken);
}

struct Endpoint {
  void open(fid_domain* domain, fi_info* info, fid_av* av) {
    fi_cq_attr attributes{};
    attributes.format = FI_CQ_FORMAT_CONTEXT;
    need(fi_cq_open(domain, &attributes, &cq, nullptr), "fi_cq_open");
    need(fi_endpoint(domain, info, &ep, nullptr), "fi_endpoint");
    need(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV), "fi_ep_bind");
    need(fi_ep_bind(ep, &av->fid, 0), "fi_ep_bind");
    need(fi_enable(ep), "fi_enable");
    char name[256];
    size_t length = sizeof name;
    need(fi_getname(&ep->fid, name, &length), "fi_getname");
    if (fi_av_insert(av, name, 1, &address, 0, nullptr) != 1) need(-FI_EOTHER, "fi_av_insert");
  }
  void close() {
    need(fi_close(&ep->fid), "closing the endpoint");
    need(fi_close(&cq->fid), "closing the queue");
  }

  fid_ep* ep = nullptr;
  fid_cq* cq = nullptr;
  fi_addr_t address = 0;
};

class OfiPair {
 public:
  OfiPair(const char* provider, const char* node, bool with_own_keys = false) {
    fi_info* hints = fi_allocinfo();
    hints->caps = FI_MSG | FI_RMA;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED;
    if (!with_own_keys) hints->domain_attr->mr_mode |= FI_MR_PROV_KEY;
    hints->domain_attr->threading = FI_THREAD_SAFE;
    hints->fabric_attr->prov_name = strdup(provider);
    const uint64_t flags = node != nullptr ? FI_SOURCE : 0;
    if (fi_getinfo(FI_VERSION(1, 13), node, nullptr, flags, hints, &info_) != 0) {
      skip("this libfabric does not have the provider");
    }
    fi_freeinfo(hints);
    need(fi_fabric(info_->fabric_attr, &fabric_, nullptr), "fi_fabric");
    need(fi_domain(fabric_, info_, &domain_, nullptr), "fi_domain");
    fi_av_attr attributes{};
    need(fi_av_open(domain_, &attributes, &av_, nullptr), "fi_av_open");
    from_.open(domain_, info_, av_);
    to_.open(domain_, info_, av_);
  }

  // Closing the domain must succeed: nothing may still be registered.
  ~OfiPair() {
    from_.close();
    to_.close();
    need(fi_close(&av_->fid), "closing the addresses");
    need(fi_close(&domain_->fid), "closing the domain");
    need(fi_close(&fabric_->fid), "closing the fabric");
    fi_freeinfo(info_);
  }
  OfiPair(const OfiPair&) = delete;
  OfiPair& operator=(const OfiPair&) = delete;

  fid_domain* domain() const { return domain_; }

  // True if the provider reports that the bytes have arrived.
  bool write(const OfiMemory& from, const OfiMemory& to, size_t length,
             int seconds = kWaitSeconds) {
    const bool is_virtual = (info_->domain_attr->mr_mode & FI_MR_VIRT_ADDR) != 0;
    const auto target = reinterpret_cast<uint64_t>(to.address) -
                        (is_virtual ? 0 : reinterpret_cast<uint64_t>(to.base));
    const iovec piece{from.address, length};
    const fi_rma_iov remote{target, length, fi_mr_key(to.mr)};
    void* descriptor = fi_mr_desc(from.mr);
    const fi_msg_rma message{&piece, &descriptor, 1, to_.address, &remote, 1, nullptr, 0};
    const time_t end = time(nullptr) + seconds;
    ssize_t status = 0;
    while ((status = fi_writemsg(from_.ep, &message, FI_COMPLETION | FI_DELIVERY_COMPLETE)) ==
           -FI_EAGAIN) {
      progress();
      if (time(nullptr) > end) return false;
    }
    if (status != 0) return false;
    while ((status = progress()) == -FI_EAGAIN && time(nullptr) <= end) continue;
    return status == 1;
  }

 private:
  // Polls the sender's queue; the receiver's is empty, but reading it drives its progress.
  ssize_t progress() {
    fi_cq_entry entry;
    (void)fi_cq_read(to_.cq, &entry, 1);
    const ssize_t status = fi_cq_read(from_.cq, &entry, 1);
    if (status == -FI_EAVAIL) {
      fi_cq_err_entry error{};
      (void)fi_cq_readerr(from_.cq, &error, 0);
    }
    return status;
  }

  fi_info* info_ = nullptr;
  fid_fabric* fabric_ = nullptr;
  fid_domain* domain_ = nullptr;
  fid_av* av_ = nullptr;
  Endpoint from_, to_;
};

}  // namespace probe
