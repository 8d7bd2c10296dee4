#include "regcache/preload/ucx/parameters.h"

#include <stddef.h>
#include <string.h>

namespace rdmalloc::shim {
namespace {

struct Field {
  uint64_t bit;
  size_t end;  // offset in bytes from the start of the struct
};

#define RDM_FIELD(bit, name) \
  { UCP_PARAM_FIELD_##bit, offsetof(ucp_params_t, name) + sizeof(ucp_params_t::name) }
constexpr Field kFields[] = {
    RDM_FIELD(FEATURES, features),
    RDM_FIELD(REQUEST_SIZE, request_size),
    RDM_FIELD(REQUEST_INIT, request_init),
    RDM_FIELD(REQUEST_CLEANUP, request_cleanup),
    RDM_FIELD(TAG_SENDER_MASK, tag_sender_mask),
    RDM_FIELD(MT_WORKERS_SHARED, mt_workers_shared),
    RDM_FIELD(ESTIMATED_NUM_EPS, estimated_num_eps),
    RDM_FIELD(ESTIMATED_NUM_PPN, estimated_num_ppn),
#if UCP_API_VERSION >= UCP_VERSION(1, 12)
    RDM_FIELD(NAME, name),
#endif
};
#undef RDM_FIELD

}  // namespace

// Copies only the fields that the caller declares: its struct may come from an older UCX and be
// shorter than ours.
SharedParameters::SharedParameters(const ucp_params_t* given) : chosen_(given) {
  if (given == nullptr) return;
  uint64_t unknown = given->field_mask;
  size_t length = sizeof given->field_mask;
  for (const Field& field : kFields) {
    if ((unknown & field.bit) == 0) continue;
    unknown &= ~field.bit;
    if (field.end > length) length = field.end;
  }
  if (unknown != 0) return;
  memcpy(&copy_, given, length);
  copy_.field_mask |= UCP_PARAM_FIELD_MT_WORKERS_SHARED;
  copy_.mt_workers_shared = 1;
  chosen_ = &copy_;
}

}  // namespace rdmalloc::shim
