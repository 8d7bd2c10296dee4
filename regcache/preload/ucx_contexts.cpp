#include "regcache/preload/ucx_contexts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <atomic>

#include "regcache/posix_lock.h"

namespace rdmalloc::shim {
namespace {

constinit std::atomic<bool> has_warned{false};

// librdmalloc names what is malformed; here it counts as on.
bool may_warn() {
  const char* text = getenv("RDMALLOC_WARN");
  if (text == nullptr) return true;
  for (const char* word : {"off", "0", "no", "false"}) {
    if (strcmp(text, word) == 0) return false;
  }
  return true;
}

// Once for the process, by write(): the program may have closed, or be in, its stdio.
void warn(const char* why) {
  if (!may_warn() || has_warned.exchange(true)) return;
  char line[512];
  const int length =
      snprintf(line, sizeof line, "rdmalloc: UCX registers malloc'd buffers by itself: %s\n", why);
  if (length < 0) return;
  const size_t bytes = static_cast<size_t>(length);
  if (write(STDERR_FILENO, line, bytes < sizeof line ? bytes : sizeof line - 1) < 0) return;
}

}  // namespace

void ContextTable::open(ucp_context_h context) {
  char why[320] = {};
  rdm_domain_options options{};
  options.size = sizeof options;
  options.error = why;
  options.error_size = sizeof why;
  rdm_domain* domain = nullptr;
  const int status = rdm_domain_open_ucx(context, &options, &domain);
  if (status != RDM_OK) {
    warn(why[0] != '\0' ? why : rdm_strerror(status));
  } else if (!add({context, domain})) {
    (void)rdm_domain_close(domain);
    warn("the process has more UCP contexts than are looked after");
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
