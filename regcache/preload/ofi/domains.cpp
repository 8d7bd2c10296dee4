#include "regcache/preload/ofi/domains.h"

#include <rdma/fi_errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <initializer_list>

#include <atomic>

#include "include/rdmalloc/ofi.h"
#include "regcache/domain/ofi_known.h"
#include "regcache/preload/warning.h"

namespace rdmalloc::shim {
namespace {

// Tables may be longer or shorter than in the headers used here; they state their size.
template <typename Table>
size_t bytes_of(const Table* table) {
  return table->size > sizeof(Table) ? table->size : sizeof(Table);
}

template <typename Table>
void copy(const Table* from, Table* to) {
  memcpy(static_cast<void*>(to), from, from->size);
}

// One per provider's table, never freed: fabrics share them.
struct FabricTable {
  fi_ops_fabric* real;
  FabricTable* next;
  fi_ops_fabric ours;  // last: it may be longer
};

constinit std::atomic<FabricTable*> tables{nullptr};

struct Covered {
  rdm_domain* domain;  // null: no longer covered
  fi_ops* real_fid;
  fi_ops_mr* real_mr;
  fi_ops* fid;
  fi_ops_mr mr;  // last: it may be longer
};

// Counts the domains that this thread has opened, to detect domains opened within another open.
constinit thread_local uint32_t opened = 0;

Covered* covered_of(fid* domain) {
  char* mr = reinterpret_cast<char*>(reinterpret_cast<fid_domain*>(domain)->mr);
  return reinterpret_cast<Covered*>(mr - offsetof(Covered, mr));
}

// Registers a newly acquired region before libfabric would register the buffer in it. Only for
// calls without flags: others pass by libfabric's cache, as those for ofi_rxm's own pools do
// (OFI_MR_NOCACHE), or contain no addresses (FI_MR_DMABUF). Returns what the caller shall get if
// the memory is gone, as from the kernel without a cache; otherwise 0.
int cover(fid* domain, uint64_t flags, const iovec* pieces, size_t count) {
  const Covered* covered = covered_of(domain);
  if (flags != 0 || covered->domain == nullptr) return 0;
  for (size_t i = 0; i < count; ++i) {
    const void* address = pieces[i].iov_base;
    const size_t length = pieces[i].iov_len;
    if (rdm_shim_has_moved(address, length) != 0) return -FI_EFAULT;
    rdm_mr mr;
    if (rdm_owns(address) != 0) (void)rdm_lookup(covered->domain, address, length, &mr);
  }
  return 0;
}

int register_one(fid* domain, const void* address, size_t length, uint64_t access, uint64_t offset,
                 uint64_t key, uint64_t flags, fid_mr** out, void* context) {
  fi_ops_mr* real = covered_of(domain)->real_mr;
  const iovec piece{const_cast<void*>(address), length};
  const int status = cover(domain, flags, &piece, 1);
  if (status != 0) return status;
  return real->reg(domain, address, length, access, offset, key, flags, out, context);
}

int register_pieces(fid* domain, const iovec* pieces, size_t count, uint64_t access,
                    uint64_t offset, uint64_t key, uint64_t flags, fid_mr** out, void* context) {
  fi_ops_mr* real = covered_of(domain)->real_mr;
  const int status = cover(domain, flags, pieces, count);
  if (status != 0) return status;
  return real->regv(domain, pieces, count, access, offset, key, flags, out, context);
}

int register_by_attributes(fid* domain, const fi_mr_attr* attributes, uint64_t flags,
                           fid_mr** out) {
  fi_ops_mr* real = covered_of(domain)->real_mr;
  const int status = cover(domain, flags, attributes->mr_iov, attributes->iov_count);
  if (status != 0) return status;
  return real->regattr(domain, attributes, flags, out);
}

// Our memory regions are closed before their domain, which would be busy otherwise. If the
// program's own regions keep the domain busy, it stays open and uncovered. It keeps our tables,
// because others may have copied them: a domain that the program opened on top of it registers
// through them.
int close_domain(fid* domain) {
  Covered* covered = covered_of(domain);
  auto* real = reinterpret_cast<fid_domain*>(domain);
  if (covered->domain != nullptr) (void)rdm_domain_close(covered->domain);
  covered->domain = nullptr;
  real->mr = covered->real_mr;
  domain->ops = covered->real_fid;
  const int status = domain->ops->close(domain);
  if (status != 0) {
    real->mr = &covered->mr;
    domain->ops = covered->fid;
    return status;
  }
  free(covered->fid);
  free(covered);
  return 0;
}

// Providers that copy with the processor gain nothing from registration.
bool copies_bytes(const fi_info* info) {
  const char* name = info->fabric_attr != nullptr ? info->fabric_attr->prov_name : nullptr;
  while (name != nullptr) {
    const size_t length = strcspn(name, ";");
    for (const char* known : {"tcp", "sockets", "net", "udp", "shm", "sm2"}) {
      if (strlen(known) == length && strncmp(name, known, length) == 0) return true;
    }
    name = name[length] == ';' ? name + length + 1 : nullptr;
  }
  return false;
}

// This provider registers by ibv_reg_mr, for all endpoints, and requires memory that has its pages
// unless the device pages on demand. Nothing that a domain of another declares says what the kernel
// charges.
bool is_known_to_pin(const fi_info* info) {
  const char* name = info->fabric_attr != nullptr ? info->fabric_attr->prov_name : nullptr;
  return name != nullptr && strcmp(name, "verbs") == 0 && info->domain_attr != nullptr &&
         (info->domain_attr->mr_mode & FI_MR_ALLOCATED) != 0;
}

// Under any other threading model the program serializes its own threads, and does not know of
// ours.
bool is_thread_safe(const fi_info* info) {
  const fi_domain_attr* attributes = info->domain_attr;
  return attributes == nullptr || attributes->threading == FI_THREAD_UNSPEC ||
         attributes->threading == FI_THREAD_SAFE;
}

rdm_domain* open_domain(fid_domain* domain, const fi_info* info) {
  char why[320] = {};
  rdm_domain_options options{};
  options.size = sizeof options;
  options.flags = RDM_DOMAIN_PARTIAL | RDM_DOMAIN_WHEN_ASKED;
  if (!is_thread_safe(info)) options.flags |= RDM_DOMAIN_CALLERS_ONLY;
  options.error = why;
  options.error_size = sizeof why;
  rdm_domain* opened_domain = nullptr;
  const auto open = is_known_to_pin(info) ? rdm_shim_open_known_ofi : rdm_domain_open_ofi;
  const int status = open(domain, 0, &options, &opened_domain);
  if (status != RDM_OK) warn_once("libfabric", why[0] != '\0' ? why : rdm_strerror(status));
  return opened_domain;
}

void cover(fid_domain* domain, const fi_info* info) {
  const size_t mr_bytes = offsetof(Covered, mr) + bytes_of(domain->mr);
  auto* covered = static_cast<Covered*>(calloc(1, mr_bytes));
  auto* fid = static_cast<fi_ops*>(calloc(1, bytes_of(domain->fid.ops)));
  rdm_domain* ours = covered != nullptr && fid != nullptr ? open_domain(domain, info) : nullptr;
  if (ours == nullptr) {
    free(fid);
    free(covered);
    return;
  }
  covered->domain = ours;
  covered->real_fid = domain->fid.ops;
  covered->real_mr = domain->mr;
  covered->fid = fid;
  copy(domain->fid.ops, fid);
  fid->close = close_domain;
  copy(domain->mr, &covered->mr);
  covered->mr.reg = register_one;
  covered->mr.regv = register_pieces;
  covered->mr.regattr = register_by_attributes;
  domain->mr = &covered->mr;
  domain->fid.ops = fid;
}

// Calls `open`, and covers the domain unless another was opened within the call.
template <typename Open>
int open_and_cover(const fi_info* info, fid_domain** out, Open open) {
  const uint32_t before = opened;
  const int status = open();
  if (status != 0) return status;
  const bool is_inner = opened == before;
  ++opened;
  if (is_inner && !copies_bytes(info)) cover(*out, info);
  return status;
}

const fi_ops_fabric* real_of(const fid_fabric* fabric) {
  const char* ours = reinterpret_cast<const char*>(fabric->ops);
  return reinterpret_cast<const FabricTable*>(ours - offsetof(FabricTable, ours))->real;
}

int domain(fid_fabric* fabric, fi_info* info, fid_domain** out, void* context) {
  return open_and_cover(info, out,
                        [=] { return real_of(fabric)->domain(fabric, info, out, context); });
}

int domain2(fid_fabric* fabric, fi_info* info, fid_domain** out, uint64_t flags, void* context) {
  return open_and_cover(
      info, out, [=] { return real_of(fabric)->domain2(fabric, info, out, flags, context); });
}

FabricTable* make_table(fi_ops_fabric* real) {
  const size_t bytes = offsetof(FabricTable, ours) + bytes_of(real);
  auto* table = static_cast<FabricTable*>(calloc(1, bytes));
  if (table == nullptr) return nullptr;
  table->real = real;
  copy(real, &table->ours);
  table->ours.domain = domain;
  if (FI_CHECK_OP(real, fi_ops_fabric, domain2)) table->ours.domain2 = domain2;
  // Two threads may each make a table for the same one; both may then be in use.
  table->next = tables.load(std::memory_order_acquire);
  while (!tables.compare_exchange_weak(table->next, table, std::memory_order_acq_rel)) continue;
  return table;
}

}  // namespace

void watch(fid_fabric* fabric) {
  fi_ops_fabric* real = fabric->ops;
  if (real->domain == domain) return;
  FabricTable* table = tables.load(std::memory_order_acquire);
  while (table != nullptr && table->real != real) table = table->next;
  if (table == nullptr) table = make_table(real);
  if (table != nullptr) fabric->ops = &table->ours;
}

}  // namespace rdmalloc::shim
