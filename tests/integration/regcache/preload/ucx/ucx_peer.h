// A UCP context with two workers that send to each other. One thread at a time may use it.
#pragma once

#include <string.h>
#include <ucp/api/ucp.h>

#include "tests/integration/probe.h"

namespace probe {

// A UCX without transports is a reason to skip; a failure under the library is not.
inline void need(ucs_status_t status, const char* what) {
  if (status == UCS_OK) return;
  static char reason[256];
  snprintf(reason, sizeof reason, "%s: %s", what, ucs_status_string(status));
  if (status == UCS_ERR_UNSUPPORTED || status == UCS_ERR_NO_DEVICE) skip(reason);
  refused(reason);
}

// `extra`: more bits for the mask of fields, which UCX of this version does not know.
inline ucp_context_h make_context(bool is_shared, uint64_t extra = 0) {
  ucp_params_t parameters{};
  parameters.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_MT_WORKERS_SHARED | extra;
  parameters.features = UCP_FEATURE_TAG | UCP_FEATURE_RMA;
  parameters.mt_workers_shared = is_shared ? 1 : 0;
  ucp_context_h context = nullptr;
  need(ucp_init(&parameters, nullptr, &context), "ucp_init");
  return context;
}

class Peers {
 public:
  explicit Peers(ucp_context_h context) {
    for (ucp_worker_h& worker : workers_) {
      ucp_worker_params_t parameters{};
      need(ucp_worker_create(context, &parameters, &worker), "ucp_worker_create");
    }
    ucp_address_t* address = nullptr;
    size_t length = 0;
    need(ucp_worker_get_address(workers_[1], &address, &length), "ucp_worker_get_address");
    ucp_ep_params_t parameters{};
    parameters.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
    parameters.address = address;
    need(ucp_ep_create(workers_[0], &parameters, &endpoint_), "ucp_ep_create");
    ucp_worker_release_address(workers_[1], address);
  }
  ~Peers() {
    ucp_request_param_t parameters{};
    (void)finish(ucp_ep_close_nbx(endpoint_, &parameters));
    for (ucp_worker_h worker : workers_) ucp_worker_destroy(worker);
  }
  Peers(const Peers&) = delete;
  Peers& operator=(const Peers&) = delete;

  // From one to the other; if a handle is null, UCX finds out what it needs.
  ucs_status_t send(const void* from, ucp_mem_h from_handle, void* to, ucp_mem_h to_handle,
                    size_t length) {
    const ucp_request_param_t receiving = with(to_handle);
    const ucp_request_param_t sending = with(from_handle);
    constexpr ucp_tag_t kTag = 7;
    void* received = ucp_tag_recv_nbx(workers_[1], to, length, kTag, ~ucp_tag_t{0}, &receiving);
    const ucs_status_t sent = finish(ucp_tag_send_nbx(endpoint_, from, length, kTag, &sending));
    const ucs_status_t got = finish(received);
    return sent != UCS_OK ? sent : got;
  }

  // Into the other's memory, by its packed key.
  ucs_status_t put(ucp_context_h context, const void* from, ucp_mem_h from_handle, void* to,
                   ucp_mem_h to_handle, size_t length) {
    void* packed = nullptr;
    size_t size = 0;
    need(ucp_rkey_pack(context, to_handle, &packed, &size), "ucp_rkey_pack");
    ucp_rkey_h key = nullptr;
    need(ucp_ep_rkey_unpack(endpoint_, packed, &key), "ucp_ep_rkey_unpack");
    ucp_rkey_buffer_release(packed);
    const ucp_request_param_t parameters = with(from_handle);
    ucs_status_t status = finish(
        ucp_put_nbx(endpoint_, from, length, reinterpret_cast<uintptr_t>(to), key, &parameters));
    const ucp_request_param_t nothing{};
    const ucs_status_t flushed = finish(ucp_ep_flush_nbx(endpoint_, &nothing));
    ucp_rkey_destroy(key);
    return status != UCS_OK ? status : flushed;
  }

 private:
  static ucp_request_param_t with(ucp_mem_h handle) {
    ucp_request_param_t parameters{};
    if (handle != nullptr) parameters.op_attr_mask = UCP_OP_ATTR_FIELD_MEMH;
    parameters.memh = handle;
    return parameters;
  }

  ucs_status_t finish(void* request) {
    if (request == nullptr) return UCS_OK;
    if (UCS_PTR_IS_ERR(request)) return UCS_PTR_STATUS(request);
    while (ucp_request_check_status(request) == UCS_INPROGRESS) {
      for (ucp_worker_h worker : workers_) ucp_worker_progress(worker);
    }
    const ucs_status_t status = ucp_request_check_status(request);
    ucp_request_free(request);
    return status;
  }

  ucp_worker_h workers_[2] = {};
  ucp_ep_h endpoint_ = nullptr;
};

}  // namespace probe
