#include "bench/workloads/library.h"

#include <dlfcn.h>

#include "bench/workloads/meter.h"

namespace rdmalloc::bench {
namespace {

template <typename Function>
void find(Function& function, const char* name) {
  function = reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
}

// Calls `open(options, out)`.
template <typename Open>
rdm_domain* open_or_exit(const Open& open) {
  char why[256] = "rdmalloc is not there";
  rdm_domain_options options{};
  options.size = sizeof options;
  options.error = why;
  options.error_size = sizeof why;
  rdm_domain* domain = nullptr;
  if (open(&options, &domain) != RDM_OK) fail("rdm_domain_open", why);
  return domain;
}

}  // namespace

const Library& library() {
  static const Library functions = [] {
    Library found{};
    find(found.stats_get, "rdm_stats_get");
    find(found.lookup, "rdm_lookup");
    find(found.get, "rdm_get");
    find(found.put, "rdm_put");
    find(found.last_error, "rdm_last_error");
    find(found.monitor, "rdm_monitor");
    find(found.domain_open, "rdm_domain_open");
    find(found.domain_open_io_uring, "rdm_domain_open_io_uring");
    return found;
  }();
  return functions;
}

rdm_stats Library::stats() const {
  rdm_stats stats{};
  if (stats_get != nullptr) stats_get(&stats, sizeof stats);
  return stats;
}

rdm_domain* Library::open_io_uring(int ring_fd, unsigned flags) const {
  return open_or_exit([&](const rdm_domain_options* options, rdm_domain** out) {
    if (domain_open_io_uring == nullptr) return int{RDM_UNSUPPORTED};
    rdm_domain_options flagged = *options;
    flagged.flags |= flags;
    return domain_open_io_uring(ring_fd, &flagged, out);
  });
}

rdm_domain* Library::open(const rdm_backend& backend) const {
  return open_or_exit([&](const rdm_domain_options* options, rdm_domain** out) {
    if (domain_open == nullptr) return int{RDM_UNSUPPORTED};
    return domain_open(&backend, nullptr, options, out);
  });
}

}  // namespace rdmalloc::bench
