// Our memory monitor and the real libfabric, which accepts one per process.
//
//   ofi_monitor first     ours is imported, and no other after it
//   ofi_monitor second    another was imported first
//   ofi_monitor chosen    FI_MR_CACHE_MONITOR chooses one
#include <rdma/fi_errno.h>
#include <rdma/fi_ext.h>

#include "include/rdmalloc/ofi.h"
#include "tests/integration/probe.h"

namespace {

probe::Verdict verdict;

int start(fid_mem_monitor*) { return 0; }
void stop(fid_mem_monitor*) {}
int subscribe(fid_mem_monitor*, const void*, size_t) { return 0; }
void unsubscribe(fid_mem_monitor*, const void*, size_t) {}
bool valid(fid_mem_monitor*, const void*, size_t) { return false; }

// As Open MPI does: returns the positive error, or 0.
int import_another() {
  static fi_ops_mem_monitor operations = {sizeof operations, start,       stop,
                                          subscribe,         unsubscribe, valid};
  static fid_mem_monitor monitor = {{FI_CLASS_MEM_MONITOR, nullptr, nullptr}, &operations, nullptr};
  const auto open = probe::symbol<decltype(fi_open)>("fi_open");
  fid* cache = nullptr;
  if (open == nullptr || open(FI_VERSION(1, 13), "mr_cache", nullptr, 0, 0, &cache, nullptr) != 0) {
    probe::skip("this libfabric takes no monitor");
  }
  const int error = -fi_import_fid(cache, &monitor.fid, 0);
  (void)fi_close(cache);
  return error;
}

void expect(int wanted, const char* words) {
  const auto import = probe::symbol<decltype(rdm_ofi_import_monitor)>("rdm_ofi_import_monitor");
  const auto why = probe::symbol<decltype(rdm_last_error)>("rdm_last_error");
  if (import == nullptr) return verdict.broken("there is no monitor to import");
  const int status = import();
  if (status != wanted) verdict.broken("status %d, not %d: %s", status, wanted, why());
  if (status != RDM_OK && strstr(why(), words) == nullptr) verdict.broken("it said: %s", why());
}

}  // namespace

int main(int argc, char** argv) {
  const char* mode = argc > 1 ? argv[1] : "first";
  const bool is_second = strcmp(mode, "second") == 0;
  const bool is_chosen = strcmp(mode, "chosen") == 0;
  if (!is_chosen) expect(RDM_UNSUPPORTED, "has not loaded libfabric");
  if (dlopen("libfabric.so.1", RTLD_NOW | RTLD_GLOBAL) == nullptr) probe::skip("no libfabric");
  if (is_chosen) {
    expect(RDM_BUSY, "FI_MR_CACHE_MONITOR=memhooks");
    if (import_another() != 0) verdict.broken("something was imported after all");
    return verdict.status();
  }
  if (is_second && import_another() != 0) probe::skip("libfabric has a monitor from the start");
  expect(is_second ? RDM_BUSY : RDM_OK, "already");
  // Once more: it is ours, or still is not.
  expect(is_second ? RDM_BUSY : RDM_OK, "already");
  if (import_another() != FI_EBUSY) verdict.broken("another monitor could be imported after it");
  return verdict.status();
}
