// A program that attaches its UCP context explicitly, and passes UCX the handles that lookups
// return.
//
//   ucx_handles handles|alone|foreign
#include <unistd.h>

#include "tests/integration/regcache/preload/ucx/ucx_peer.h"

namespace {

constexpr size_t kMiB = size_t{1} << 20;

probe::Verdict verdict;

const auto open_ucx = probe::symbol<decltype(rdm_domain_open_ucx)>("rdm_domain_open_ucx");
const auto lookup = probe::symbol<decltype(rdm_lookup)>("rdm_lookup");
const auto get = probe::symbol<decltype(rdm_get)>("rdm_get");
const auto put = probe::symbol<decltype(rdm_put)>("rdm_put");
const auto close_domain = probe::symbol<decltype(rdm_domain_close)>("rdm_domain_close");

char why[512];

int attach(ucp_context_h context, rdm_domain** out) {
  rdm_domain_options options{};
  options.size = sizeof options;
  options.error = why;
  options.error_size = sizeof why;
  return open_ucx(context, &options, out);
}

ucp_mem_h handle_of(const rdm_domain* domain, const void* address, size_t length) {
  rdm_mr found{};
  const int status = lookup(domain, address, length, &found);
  if (status != RDM_OK) verdict.broken("a lookup of the heap: status %d", status);
  return static_cast<ucp_mem_h>(found.handle);
}

bool is_all(const char* bytes, size_t length, char fill) {
  for (size_t i = 0; i < length; ++i) {
    if (bytes[i] != fill) return false;
  }
  return true;
}

// Buffers of many sizes, sent and put by the handles of their regions.
void use_handles(ucp_context_h context, rdm_domain* domain) {
  probe::Peers peers(context);
  char fill = 1;
  for (size_t length = 64; length <= 4 * kMiB; length *= 4, ++fill) {
    auto* from = static_cast<char*>(malloc(length));
    auto* to = static_cast<char*>(malloc(length));
    const ucp_mem_h from_handle = handle_of(domain, from, length);
    const ucp_mem_h to_handle = handle_of(domain, to, length);
    memset(from, fill, length);
    memset(to, 0, length);
    ucs_status_t status = peers.send(from, from_handle, to, to_handle, length);
    if (status != UCS_OK || !is_all(to, length, fill)) {
      verdict.broken("%zu bytes sent by handle: %s", length, ucs_status_string(status));
    }
    memset(to, 0, length);
    status = peers.put(context, from, from_handle, to, to_handle, length);
    if (status != UCS_OK || !is_all(to, length, fill)) {
      verdict.broken("%zu bytes put by handle: %s", length, ucs_status_string(status));
    }
    free(from);
    free(to);
  }
}

int handles() {
  ucp_context_h context = probe::make_context(true);
  rdm_domain* domain = nullptr;
  if (attach(context, &domain) != RDM_OK) {
    verdict.broken("attaching: %s", why);
    return verdict.status();
  }
  use_handles(context, domain);
  const rdm_stats books = probe::stats();
  // A region that lost all its pages was mapped, and is a region no more.
  if (books.registrations < books.regions ||
      (books.retired_bytes == 0 && books.registrations != books.regions)) {
    verdict.broken("%lu regions were mapped %lu times", books.regions, books.registrations);
  }
  if (close_domain(domain) != RDM_OK) verdict.broken("closing failed");
  ucp_cleanup(context);
  return verdict.status();
}

int alone() {
  ucp_context_h context = probe::make_context(false);
  rdm_domain* domain = nullptr;
  const int status = attach(context, &domain);
  if (status != RDM_INVALID || strstr(why, "mt_workers_shared") == nullptr) {
    verdict.broken("a context for one thread: status %d: %s", status, why);
  }
  ucp_cleanup(context);
  return verdict.status();
}

// Memory outside the heap gets its own handle for as long as it is held.
int foreign() {
  static char from[kMiB], to[kMiB];
  ucp_context_h context = probe::make_context(true);
  rdm_domain* domain = nullptr;
  if (attach(context, &domain) != RDM_OK) verdict.broken("attaching: %s", why);
  {
    probe::Peers peers(context);
    rdm_mr mr[2] = {};
    if (get(domain, from, sizeof from, &mr[0]) != RDM_OK ||
        get(domain, to, sizeof to, &mr[1]) != RDM_OK) {
      verdict.broken("globals cannot be had");
    }
    memset(from, 'f', sizeof from);
    const ucs_status_t status = peers.send(from, static_cast<ucp_mem_h>(mr[0].handle), to,
                                           static_cast<ucp_mem_h>(mr[1].handle), sizeof from);
    if (status != UCS_OK || !is_all(to, sizeof to, 'f')) {
      verdict.broken("globals sent by handle: %s", ucs_status_string(status));
    }
    if (close_domain(domain) != RDM_BUSY) verdict.broken("closed with memory in use");
    for (const rdm_mr& held : mr) put(domain, &held);
  }
  if (close_domain(domain) != RDM_OK) verdict.broken("closing failed");
  ucp_cleanup(context);
  return verdict.status();
}

}  // namespace

int main(int argc, char** argv) {
  if (!probe::library().loaded()) {
    verdict.broken("no library: there are no handles");
    return verdict.status();
  }
  const char* what = argc > 1 ? argv[1] : "";
  if (strcmp(what, "handles") == 0) return handles();
  if (strcmp(what, "alone") == 0) return alone();
  if (strcmp(what, "foreign") == 0) return foreign();
  return 2;
}
