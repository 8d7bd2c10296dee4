#include "tests/integration/regcache/preload/ofi/ofi_fake_libfabric.h"

#include <rdma/fi_errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <list>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

namespace {

fid_mem_monitor* monitor = nullptr;
std::mutex mutex;  // like libfabric's, held while the monitor is called
FakeOfiBooks books;
const FakeOfiDevice* device = nullptr;

struct Registered {
  const char* base;
  size_t length;
};
std::vector<Registered> all_registered;  // ever

void check(bool right, const char* what) {
  if (right) return;
  fprintf(stderr, "fake libfabric: %s\n", what);
  abort();
}

struct Domain;

// A registration as the device sees it.
struct Entry {
  fid_mr mr{};
  Domain* domain = nullptr;
  const char* base = nullptr;
  size_t length = 0;
  void* registration = nullptr;  // the device's
  int users = 1;
  bool kept = false;

  bool covers(const char* at, size_t bytes) const {
    return base <= at && bytes <= length && size_t(at - base) <= length - bytes;
  }
  bool overlaps(const char* at, size_t bytes) const {
    return base < at + bytes && at < base + length;
  }
};

struct Domain {
  fid_domain domain{};
  fid_domain* inner = nullptr;  // of a layered provider
  bool is_locked = true;        // as requested; else the program calls from one thread at a time
  std::thread::id opener = std::this_thread::get_id();
  std::list<Entry> entries;
};

struct Fabric {
  fid_fabric fabric{};
  fid_fabric* inner = nullptr;
};

void note_thread(const Domain& domain) {
  if (!domain.is_locked && domain.opener != std::this_thread::get_id()) ++books.elsewhere;
}

std::set<const Entry*> entries;  // of all domains

// Removed under the lock, reported to the device after it.
class Ended {
 public:
  Ended() = default;
  ~Ended() {
    if (device == nullptr) return;
    for (void* each : registrations_) device->remove(each);
  }
  Ended(const Ended&) = delete;
  Ended& operator=(const Ended&) = delete;
  void add(void* registration) { registrations_.push_back(registration); }

 private:
  std::vector<void*> registrations_;
};

void end(Domain* domain, std::list<Entry>::iterator entry, Ended* ended) {
  --books.live;
  entries.erase(&*entry);
  ended->add(entry->registration);
  domain->entries.erase(entry);
}

int close_mr(fid* mr) {
  Ended ended;
  const std::lock_guard<std::mutex> hold(mutex);
  auto* given = reinterpret_cast<Entry*>(mr);
  Domain* domain = given->domain;
  note_thread(*domain);
  for (auto entry = domain->entries.begin(); entry != domain->entries.end(); ++entry) {
    if (&*entry != given) continue;
    check(--entry->users >= 0, "a memory region is closed twice");
    if (entry->users == 0 && !entry->kept) end(domain, entry, &ended);
    return 0;
  }
  check(false, "what is closed is no memory region");
  return -FI_EINVAL;
}

fi_ops mr_operations = {sizeof(fi_ops), close_mr, nullptr, nullptr, nullptr, nullptr, nullptr};

// Versions differ in whether they do this.
void unsubscribe(const Entry& entry) {
  static const bool says = getenv("FAKE_OFI_OLD") == nullptr;
  if (says) monitor->export_ops->unsubscribe(monitor, entry.base, entry.length);
}

// Returns a cached entry that covers the range; releases those that overlap it or are no longer
// valid.
Entry* find(Domain* domain, const char* at, size_t length, Ended* ended) {
  for (auto next = domain->entries.begin(); next != domain->entries.end();) {
    const auto entry = next++;
    if (!entry->kept || !entry->overlaps(at, length)) continue;
    if (entry->covers(at, length) &&
        monitor->export_ops->valid(monitor, entry->base, entry->length)) {
      return &*entry;
    }
    entry->kept = false;
    unsubscribe(*entry);
    if (entry->users == 0) end(domain, entry, ended);
  }
  return nullptr;
}

Entry* make(Domain* domain, const char* at, size_t length, void* registration, bool may_keep) {
  Entry& entry = domain->entries.emplace_back();
  entries.insert(&entry);
  entry.registration = registration;
  entry.domain = domain;
  entry.base = at;
  entry.length = length;
  entry.mr.fid = {FI_CLASS_MR, nullptr, &mr_operations};
  entry.mr.mem_desc = &entry;
  entry.mr.key = ++books.registered;
  ++books.live;
  all_registered.push_back({at, length});
  if (monitor == nullptr || !may_keep) return &entry;
  entry.kept = monitor->export_ops->subscribe(monitor, at, length) == 0;
  if (!entry.kept) unsubscribe(entry);
  return &entry;
}

int reg(fid* given, const void* base, size_t length, uint64_t access, uint64_t offset, uint64_t key,
        uint64_t flags, fid_mr** out, void* context) {
  auto* domain = reinterpret_cast<Domain*>(given);
  if (domain->inner != nullptr) {
    return fi_mr_reg(domain->inner, base, length, access, offset, key, flags, out, context);
  }
  const auto* at = static_cast<const char*>(base);
  Ended ended;
  std::unique_lock<std::mutex> hold(mutex);
  note_thread(*domain);
  const bool may_keep = (flags & kFakeOfiNoCache) == 0;
  Entry* entry = monitor != nullptr && may_keep ? find(domain, at, length, &ended) : nullptr;
  if (entry != nullptr) {
    ++entry->users;
    *out = &entry->mr;
    return 0;
  }
  void* registration = nullptr;
  if (device != nullptr) {
    hold.unlock();
    registration = device->add(base, length);
    if (registration == nullptr) return -FI_ENOMEM;
    hold.lock();
  }
  *out = &make(domain, at, length, registration, may_keep)->mr;
  return 0;
}

int regv(fid* given, const iovec* pieces, size_t count, uint64_t access, uint64_t offset,
         uint64_t key, uint64_t flags, fid_mr** out, void* context) {
  if (count != 1) return -FI_EINVAL;
  return reg(given, pieces->iov_base, pieces->iov_len, access, offset, key, flags, out, context);
}

int regattr(fid* given, const fi_mr_attr* attributes, uint64_t flags, fid_mr** out) {
  return regv(given, attributes->mr_iov, attributes->iov_count, attributes->access,
              attributes->offset, attributes->requested_key, flags, out, attributes->context);
}

int close_domain(fid* given) {
  auto* domain = reinterpret_cast<Domain*>(given);
  if (domain->inner != nullptr) {
    if (const int status = fi_close(&domain->inner->fid)) return status;
  }
  Ended ended;
  const std::lock_guard<std::mutex> hold(mutex);
  for (const Entry& entry : domain->entries) {
    if (entry.users != 0) return -FI_EBUSY;
  }
  while (!domain->entries.empty()) end(domain, domain->entries.begin(), &ended);
  delete domain;
  return 0;
}

int open_domain(fid_fabric* given, fi_info* info, fid_domain** out, void* context) {
  static fi_ops operations = {sizeof(fi_ops), close_domain, nullptr, nullptr,
                              nullptr,        nullptr,      nullptr};
  static fi_ops_mr mr = {sizeof(fi_ops_mr), reg, regv, regattr};
  auto* domain = new Domain;
  domain->domain.fid = {FI_CLASS_DOMAIN, nullptr, &operations};
  domain->domain.mr = &mr;
  const fi_domain_attr* attributes = info->domain_attr;
  domain->is_locked = attributes == nullptr || attributes->threading == FI_THREAD_UNSPEC ||
                      attributes->threading == FI_THREAD_SAFE;
  auto* fabric = reinterpret_cast<Fabric*>(given);
  if (fabric->inner != nullptr) fi_domain(fabric->inner, info, &domain->inner, context);
  *out = &domain->domain;
  return 0;
}

int close_fabric(fid* given) {
  auto* fabric = reinterpret_cast<Fabric*>(given);
  if (fabric->inner != nullptr) fi_close(&fabric->inner->fid);
  delete fabric;
  return 0;
}

int import_monitor(fid*, fid* given, uint64_t flags) {
  if (flags != 0 || given->fclass != FI_CLASS_MEM_MONITOR) return -FI_EINVAL;
  if (monitor != nullptr) return -FI_EBUSY;
  monitor = reinterpret_cast<fid_mem_monitor*>(given);
  return monitor->export_ops->start(monitor);
}

int close_cache(fid* cache) {
  free(cache);
  return 0;
}

}  // namespace

extern "C" {

// With ";ofi_rxm" in the provider's name: a layer over a provider without it.
int fabric_1_1(fi_fabric_attr* attributes, fid_fabric** out, void* context) {
  static fi_ops operations = {sizeof(fi_ops), close_fabric, nullptr, nullptr,
                              nullptr,        nullptr,      nullptr};
  // An older table: without the last operation.
  static fi_ops_fabric fabric_operations = {
      offsetof(fi_ops_fabric, domain2), open_domain, nullptr, nullptr, nullptr, nullptr, nullptr};
  auto* fabric = new Fabric;
  fabric->fabric.fid = {FI_CLASS_FABRIC, nullptr, &operations};
  fabric->fabric.ops = &fabric_operations;
  if (strstr(attributes->prov_name, ";ofi_rxm") != nullptr) {
    fi_fabric_attr inner = *attributes;
    char name[] = "verbs";
    inner.prov_name = name;
    fi_fabric(&inner, &fabric->inner, context);
  }
  *out = &fabric->fabric;
  return 0;
}

int fabric_1_0(fi_fabric_attr* attributes, fid_fabric** out, void* context) {
  ++books.old_interface;
  return fabric_1_1(attributes, out, context);
}

__asm__(".symver fabric_1_0, fi_fabric@FABRIC_1.0");
__asm__(".symver fabric_1_1, fi_fabric@@FABRIC_1.1");

int fi_open(uint32_t, const char* name, void*, size_t, uint64_t, fid** out, void*) {
  static fi_ops operations = {sizeof(fi_ops), close_cache, import_monitor, nullptr,
                              nullptr,        nullptr,     nullptr};
  if (strcmp(name, "mr_cache") != 0) return -FI_ENOSYS;
  *out = static_cast<fid*>(calloc(1, sizeof(fid)));
  **out = {FI_CLASS_MR_CACHE, nullptr, &operations};
  return 0;
}

FakeOfiBooks fake_ofi_books() {
  const std::lock_guard<std::mutex> hold(mutex);
  return books;
}

void fake_ofi_set_device(const FakeOfiDevice* it) { device = it; }

void* fake_ofi_registration_of(const void* descriptor, const void* address, size_t length) {
  const std::lock_guard<std::mutex> hold(mutex);
  const auto found = entries.find(static_cast<const Entry*>(descriptor));
  const bool has_all = found != entries.end() && length != 0 &&
                       (*found)->covers(static_cast<const char*>(address), length);
  return has_all ? (*found)->registration : nullptr;
}

uint64_t fake_ofi_registrations_of(const void* address) {
  const std::lock_guard<std::mutex> hold(mutex);
  uint64_t count = 0;
  for (const Registered& each : all_registered) {
    count += size_t(static_cast<const char*>(address) - each.base) < each.length ? 1 : 0;
  }
  return count;
}

}  // extern "C"
