// The table of operations of a backend that is a class: its members, called through the context.
#pragma once

#include "include/rdmalloc/backend.h"

namespace rdmalloc {

// `Backend` has limits(), register_memory(), deregister_memory() and a static destroy(backend,
// forked).
template <typename Backend>
constexpr rdm_backend backend_table(const char* name) {
  return {
      sizeof(rdm_backend),
      name,
      [](void* context, rdm_backend_limits* out) {
        static_cast<Backend*>(context)->limits(out);
        return int{RDM_OK};
      },
      [](void* context, const rdm_backend_request* request, rdm_backend_key* out, char* why,
         size_t why_size) {
        return static_cast<Backend*>(context)->register_memory(*request, out, why, why_size);
      },
      [](void* context, const rdm_backend_key* key) {
        return static_cast<Backend*>(context)->deregister_memory(*key);
      },
      [](void* context, int forked) {
        Backend::destroy(static_cast<Backend*>(context), forked != 0);
      },
  };
}

}  // namespace rdmalloc
