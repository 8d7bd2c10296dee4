#include "regcache/preload/ucx/contexts.h"

#include "regcache/posix_lock.h"
#include "regcache/preload/warning.h"

namespace rdmalloc::shim {

void ContextTable::open(ucp_context_h context) {
  char why[320] = {};
  rdm_domain_options options{};
  options.size = sizeof options;
  options.error = why;
  options.error_size = sizeof why;
  rdm_domain* domain = nullptr;
  const int status = rdm_domain_open_ucx(context, &options, &domain);
  if (status != RDM_OK) {
    warn_once("UCX", why[0] != '\0' ? why : rdm_strerror(status));
  } else if (!add({context, domain})) {
    (void)rdm_domain_close(domain);
    warn_once("UCX", "the process has more UCP contexts than the shim can serve");
  }
}

void ContextTable::close(ucp_context_h context) {
  rdm_domain* domain = take(context);
  if (domain != nullptr) (void)rdm_domain_close(domain);
}

bool ContextTable::add(const Entry& entry) {
  const PosixLock hold(&mutex_);
  for (Entry& place : entries_) {
    if (place.context != nullptr) continue;
    place = entry;
    return true;
  }
  return false;
}

rdm_domain* ContextTable::take(ucp_context_h context) {
  const PosixLock hold(&mutex_);
  for (Entry& entry : entries_) {
    if (entry.context == nullptr || entry.context != context) continue;
    rdm_domain* domain = entry.domain;
    entry = {};
    return domain;
  }
  return nullptr;
}

}  // namespace rdmalloc::shim
