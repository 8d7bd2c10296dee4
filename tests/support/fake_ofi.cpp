#include "tests/support/fake_ofi.h"

#include <rdma/fi_errno.h>
#include <stdlib.h>

#include <algorithm>
#include <memory>

#include "allocator/os/memory.h"

namespace rdmalloc::test {
namespace {

std::unique_ptr<FakeOfi> fake;

int close_mr(fid* mr) {
  const std::lock_guard<std::mutex> hold(fake->mutex);
  const auto found = fake->live.find(mr);
  if (found == fake->live.end()) abort();
  if (fake->close_status != 0) return fake->close_status;
  fake->pinned -= fake->pins * found->second.length;
  fake->live.erase(found);
  delete reinterpret_cast<fid_mr*>(mr);
  return 0;
}

int control_mr(fid*, int command, void*) {
  return command == FI_GET_RAW_MR && fake->has_raw_keys ? 0 : -FI_ENOSYS;
}

fi_ops mr_operations = {sizeof(fi_ops), close_mr, nullptr, control_mr, nullptr, nullptr, nullptr};

int check_key(uint64_t key) {
  if (fake->chooses_keys) return 0;
  if (key > fake->largest_key) return FI_EKEYREJECTED;
  const bool taken = std::any_of(fake->live.begin(), fake->live.end(),
                                 [key](const auto& entry) { return entry.second.key == key; });
  return taken ? FI_ENOKEY : 0;
}

int register_memory(fid* domain, const void* base, size_t length, uint64_t access, uint64_t offset,
                    uint64_t key, uint64_t flags, fid_mr** out, void*) {
  if (domain != &fake->domain()->fid || offset != 0 || flags != 0 || length == 0) abort();
  const std::lock_guard<std::mutex> hold(fake->mutex);
  int error = fake->answer ? fake->answer(fake->registered.size()) : 0;
  fake->registered.push_back({const_cast<void*>(base), length, access, key});
  if (error == 0) error = check_key(key);
  if (error != 0) return -error;
  auto* mr = new fid_mr{};
  mr->fid.fclass = FI_CLASS_MR;
  mr->fid.ops = &mr_operations;
  mr->mem_desc = mr;
  const bool has_key = !fake->has_raw_keys && !fake->is_for_endpoints;
  mr->key = has_key ? key : FI_KEY_NOTAVAIL;
  fake->live[&mr->fid] = fake->registered.back();
  fake->pinned += fake->pins * length;
  *out = mr;
  return 0;
}

fi_ops_mr domain_operations = {sizeof(fi_ops_mr), register_memory, nullptr, nullptr};
fid_domain the_domain = {{FI_CLASS_DOMAIN, nullptr, nullptr}, nullptr, &domain_operations};

}  // namespace

fid_domain* FakeOfi::domain() { return &the_domain; }

FakeOfi& reset_fake_ofi() {
  fake = std::make_unique<FakeOfi>();
  return *fake;
}

uint64_t fake_ofi_pinned() {
  const std::lock_guard<std::mutex> hold(fake->mutex);
  return fake->pinned;
}

}  // namespace rdmalloc::test

// The fake system calls have none.
namespace rdmalloc::os {

Status inherit_on_fork(void* address, size_t) {
  const std::lock_guard<std::mutex> hold(test::fake->mutex);
  test::fake->shown.push_back(address);
  return Status::kOk;
}

}  // namespace rdmalloc::os

// rdm_domain_open_ofi() needs one to link; the backend's unit tests do not link the library's own.
extern "C" int rdm_domain_open(const rdm_backend*, void*, const rdm_domain_options*, rdm_domain**) {
  return RDM_UNSUPPORTED;
}
