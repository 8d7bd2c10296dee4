// How libfabric domains begin and end under the shim, and who owns them. Over a fake libfabric,
// with and without the shim. The first argument names the case.

#include <vector>

#include "tests/integration/regcache/preload/ofi/ofi_import.h"
#include "tests/integration/regcache/preload/ofi/ofi_speaker.h"

namespace {

using probe::kBytes;
using probe::kLargest;
using probe::Speaker;
using probe::verdict;

// Nothing stays registered, not even what was acquired last; malloc goes on.
void domains_end() {
  std::vector<void*> kept;
  for (int round = 0; round < 20; ++round) {
    Speaker speaker(round % 2 == 0 ? "verbs;ofi_rxm" : "verbs");
    void* bytes = malloc(kLargest << (round % 5));
    kept.push_back(bytes);
    speaker.use(bytes, kLargest);
    speaker.close();
    if (fake_ofi_books().live != 0) verdict.broken("%lu are registered", fake_ofi_books().live);
  }
  for (void* bytes : kept) free(bytes);
}

// The domain is busy while one of the program's memory regions is open, and works after that.
void busy() {
  Speaker speaker;
  void* bytes = malloc(kBytes);
  fid_mr* mr = nullptr;
  if (fi_mr_reg(speaker.domain(), bytes, kBytes, FI_SEND, 0, 0, 0, &mr, nullptr) != 0) {
    verdict.broken("registering");
  }
  if (fi_close(&speaker.domain()->fid) != -FI_EBUSY) verdict.broken("the domain is not busy");
  if (fi_close(&mr->fid) != 0) verdict.broken("the memory region does not close");
  speaker.use(bytes, kBytes);
  free(bytes);
}

// The program's own rdmalloc domain on the same libfabric domain, closed too late: until then its
// registrations stay.
void by_hand() {
  const auto open = probe::symbol<decltype(rdm_domain_open_ofi)>("rdm_domain_open_ofi");
  const auto close_domain = probe::symbol<decltype(rdm_domain_close)>("rdm_domain_close");
  const auto lookup = probe::symbol<decltype(rdm_lookup)>("rdm_lookup");
  Speaker speaker("verbs");
  rdm_domain* domain = nullptr;
  if (open == nullptr || open(speaker.domain(), 0, nullptr, &domain) != RDM_OK) {
    return verdict.broken("it does not open");
  }
  for (int round = 0; round < 2; ++round) {
    if (fi_close(&speaker.domain()->fid) != -FI_EBUSY) verdict.broken("the domain is not busy");
    for (size_t size = kLargest; size <= 32 * kLargest; size *= 2) {
      rdm_mr mr{};
      void* bytes = malloc(size);
      if (lookup(domain, bytes, size, &mr) != RDM_OK) verdict.broken("%zu bytes: no key", size);
      speaker.use(bytes, size);
    }
  }
  if (close_domain(domain) != RDM_OK) verdict.broken("it does not close");
  speaker.close();
  if (fake_ofi_books().live != 0) verdict.broken("%lu are registered", fake_ofi_books().live);
}

// A program that imports a monitor comes second, as Open MPI does, and is told so.
void another_monitor() {
  fid* cache = nullptr;
  if (fi_open(FI_VERSION(1, 13), "mr_cache", nullptr, 0, 0, &cache, nullptr) != 0) {
    return verdict.broken("no cache");
  }
  if (fi_import_fid(cache, probe::monitor_that_says<false>(), 0) != -FI_EBUSY)
    verdict.broken("there was none before");
  fi_close(cache);
  // Ours knows that window memory does not change.
  Speaker speaker;
  void* bytes = malloc(kBytes);
  speaker.use(bytes, kBytes);
  if (speaker.cost_of(bytes, [&] { speaker.use(bytes, kBytes); }) != 0) {
    verdict.broken("registered again");
  }
  free(bytes);
}

// A child has its heap and may close what it inherited, without effect on its parent.
void forks() {
  Speaker speaker;
  void* bytes = malloc(kBytes);
  speaker.use(bytes, kBytes);
  for (int i = 0; i < 20; ++i) {
    const probe::ChildEnd end = probe::run_child([&] {
      free(malloc(kLargest));
      (void)fi_close(&speaker.domain()->fid);  // busy: the registrations are the parent's
      memset(bytes, 2, kBytes);
      free(bytes);
    });
    verdict.expect_good_end("a child", end);
  }
  if (speaker.cost_of(bytes, [&] { speaker.use(bytes, kBytes); }) != 0) {
    verdict.broken("registered again");
  }
  free(bytes);
}

// fi_fabric of the oldest interface is left to libfabric, which knows its structs.
void old_interface() {
  const auto old =
      reinterpret_cast<decltype(&fi_fabric)>(dlvsym(RTLD_DEFAULT, "fi_fabric", "FABRIC_1.0"));
  fi_fabric_attr attributes{};
  char name[] = "verbs";
  attributes.prov_name = name;
  fid_fabric* fabric = nullptr;
  if (old == nullptr || old(&attributes, &fabric, nullptr) != 0) return verdict.broken("not found");
  if (fake_ofi_books().old_interface != 1) verdict.broken("another interface was reached");
  fi_close(&fabric->fid);
}

constexpr probe::Case kCases[] = {
    {"domains_end", domains_end},         {"busy", busy},   {"by_hand", by_hand},
    {"another_monitor", another_monitor}, {"forks", forks}, {"old_interface", old_interface}};

}  // namespace

int main(int argc, char** argv) { return probe::run_case(kCases, argc, argv); }
