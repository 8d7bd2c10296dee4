// Opening a domain prints a warning if fork would take registered pages from the process.
//
//   fork_warning old|new|released|on-demand
//
// `old`: the kernel reports an old version; `released`, `on-demand`: the domain is unaffected even
// so. An RDMA driver of this machine is not heard: its answer would count instead of the version.
#include <errno.h>
#include <sys/personality.h>
#include <sys/socket.h>

#include <string>

#include "include/rdmalloc/backend.h"
#include "tests/integration/probe.h"

namespace {

bool pages_on_demand = false;

int limits(void*, rdm_backend_limits* out) {
  if (pages_on_demand) out->abilities = RDM_BACKEND_ON_DEMAND;
  return RDM_OK;
}

int register_memory(void*, const rdm_backend_request*, rdm_backend_key*, char*, size_t) {
  return RDM_OK;
}

int deregister_memory(void*, const rdm_backend_key*) { return RDM_OK; }

}  // namespace

// In place of libc's; drivers are asked through such a socket.
extern "C" int socket(int, int, int) noexcept {
  errno = EAFNOSUPPORT;
  return -1;
}

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (what != "new") personality(UNAME26);
  pages_on_demand = what == "on-demand";
  auto* const open = probe::symbol<decltype(rdm_domain_open)>("rdm_domain_open");
  if (open == nullptr) return probe::kBroken;
  rdm_backend backend{};
  backend.size = sizeof backend;
  backend.name = "fake";
  backend.limits = limits;
  backend.register_memory = register_memory;
  backend.deregister_memory = deregister_memory;
  rdm_domain_options options{};
  options.size = sizeof options;
  if (what == "released") options.flags = RDM_DOMAIN_RELEASE_AT_FORK;
  for (int i = 0; i < 3; ++i) {
    rdm_domain* domain = nullptr;
    if (open(&backend, nullptr, &options, &domain) != RDM_OK) return probe::kBroken;
  }
  return probe::kHolds;
}
