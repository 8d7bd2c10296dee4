#include "regcache/domain/domain_foreign.h"

#include "allocator/os/memory.h"

namespace rdmalloc {
namespace {

rdm_backend_request request_for(const DomainParts& domain, uintptr_t base, size_t length) {
  rdm_backend_request request{};
  request.base = reinterpret_cast<void*>(base);
  request.length = length;
  request.page_size = os::page_size();
  // Unpinned memory of the window shares its pages with other malloc'd objects.
  request.access = domain.mrs.access(!domain.keys.is_in_window(request.base));
  request.node = -1;
  request.foreign = 1;
  return request;
}

}  // namespace

int DomainDevice::register_foreign(uintptr_t base, size_t length, size_t kept, rdm_backend_key* key,
                                   char* why, size_t why_size) {
  domain_->registration().register_missed();
  const rdm_backend_request request = request_for(domain_->parts(), base, length);
  const int status = device().register_memory(request, charges(), kept, key, why, why_size);
  if (status != RDM_OUT_OF_BUDGET) return status;
  const size_t shortfall = device().shortfall(charges(), length);
  if (shortfall == 0 || !device().is_limit_raised(charges(), shortfall)) return status;
  return device().register_memory(request, charges(), 0, key, why, why_size);
}

bool DomainDevice::is_for_users_only(uintptr_t base) {
  const DomainParts& domain = domain_->parts();
  return domain.mrs.is_exposed_only() &&
         domain.keys.is_in_window(reinterpret_cast<const void*>(base));
}

bool DomainDevice::may_keep(uintptr_t base, size_t length) {
  const DomainParts& domain = domain_->parts();
  const void* const address = reinterpret_cast<const void*>(base);
  if (!domain.keys.is_in_window(address)) return true;
  if (is_for_users_only(base)) return false;
  const Region* const region = domain.source->regions().find(address);
  const PageMarks* const marks = domain.source->marks();
  return region != nullptr && !domain.mrs.takes(*region) &&
         (marks == nullptr || !marks->has_hole(base, length));
}

void DomainForeign::open(const rdm_domain_options& options, const ForeignDefaults& defaults) {
  ForeignSettings settings;
  settings.limits.leave_pinned =
      defaults.leave_pinned && (options.flags & RDM_DOMAIN_LEAVE_NOTHING_PINNED) == 0;
  settings.limits.bytes = options.foreign_bytes != 0 ? options.foreign_bytes : defaults.bytes;
  settings.limits.count = options.foreign_count != 0 ? options.foreign_count : defaults.count;
  settings.wait_ms = options.foreign_wait_ms;
  settings.wish = defaults.monitor;
  cache.open(settings, &device);
}

}  // namespace rdmalloc
