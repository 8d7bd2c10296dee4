#include "tests/support/fake_verbs.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <memory>

namespace rdmalloc::test {
namespace {

std::unique_ptr<FakeVerbs> fake;

ibv_mr* register_memory(ibv_pd* pd, const FakeVerbs::Call& call) {
  if (pd != &fake->pd) abort();
  if (fake->hides_from_children && (call.access & IBV_ACCESS_ON_DEMAND) == 0) {
    madvise(call.base, call.length, MADV_DONTFORK);
  }
  const int error = fake->refuse ? fake->refuse(call) : 0;
  const std::lock_guard<std::mutex> hold(fake->mutex);
  fake->calls.push_back(call);
  if (error != 0) {
    if (fake->hides_from_children) madvise(call.base, call.length, MADV_DOFORK);
    errno = error;
    return nullptr;
  }
  auto* mr = new ibv_mr{};
  mr->context = pd->context;
  mr->pd = pd;
  mr->addr = call.base;
  mr->length = call.length;
  mr->handle = mr->lkey = static_cast<uint32_t>(fake->calls.size());
  mr->rkey = mr->lkey + 1000;
  fake->live.insert(mr);
  return mr;
}

ibv_mr* reg_mr(ibv_pd* pd, void* base, size_t length, int access) {
  if ((static_cast<unsigned>(access) & IBV_ACCESS_OPTIONAL_RANGE) != 0) abort();
  return register_memory(pd, {base, length, static_cast<unsigned>(access), false});
}

ibv_mr* reg_mr_iova2(ibv_pd* pd, void* base, size_t length, uint64_t iova, unsigned access) {
  if (iova != reinterpret_cast<uintptr_t>(base)) abort();
  return register_memory(pd, {base, length, access, true});
}

int dereg_mr(ibv_mr* mr) {
  const std::lock_guard<std::mutex> hold(fake->mutex);
  if (fake->live.count(mr) == 0) abort();
  if (fake->deregister_status != 0) return fake->deregister_status;
  fake->live.erase(mr);
  delete mr;
  return 0;
}

void describe(ibv_device_attr* out) {
  *out = {};
  out->max_mr = fake->max_mr;
  out->max_mr_size = fake->max_mr_size;
}

int query_device(ibv_context*, ibv_device_attr* out) {
  if (fake->query_fails) return EIO;
  describe(out);
  return 0;
}

int query_device_ex(ibv_context*, const ibv_query_device_ex_input*, ibv_device_attr_ex* out,
                    size_t size) {
  if (fake->query_fails || size < sizeof *out) return EINVAL;
  *out = {};
  describe(&out->orig_attr);
  out->odp_caps = fake->odp;
  return 0;
}

ForkStatus is_fork_initialized() { return fake->fork_status; }

}  // namespace

FakeVerbs& reset_fake_verbs() {
  fake = std::make_unique<FakeVerbs>();
  fake->context.sz = sizeof fake->context;
  fake->context.query_device_ex = query_device_ex;
  fake->context.context.abi_compat = __VERBS_ABI_IS_EXTENDED;
  fake->pd.context = &fake->context.context;
  return *fake;
}

VerbsLibrary fake_verbs_library() {
  VerbsLibrary library;
  library.reg_mr_iova2 = reg_mr_iova2;
  library.reg_mr = reg_mr;
  library.dereg_mr = dereg_mr;
  library.query_device = query_device;
  library.is_fork_initialized = is_fork_initialized;
  return library;
}

}  // namespace rdmalloc::test

// rdm_domain_open_verbs() needs one to link; the backend's unit tests do not link the library's
// own.
extern "C" int rdm_domain_open(const rdm_backend*, void*, const rdm_domain_options*, rdm_domain**) {
  return RDM_UNSUPPORTED;
}
