#include "tests/guest/rc_pair.h"

#include <sys/mman.h>
#include <time.h>

#include "tests/integration/probe.h"

namespace guest {

namespace {

constexpr uint8_t kPort = 1;
// RoCE's GID made from the interface's IPv4 address.
constexpr uint8_t kGidIndex = 1;
constexpr time_t kCompletionSeconds = 20;

// Without a device there is nothing to test; what an open device refuses, ours may have caused.
void need_device(bool good, const char* what) {
  if (!good) probe::skip(what);
}
void need(bool good, const char* what) {
  if (!good) probe::refused(what);
}

int to_init(ibv_qp* pair) {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.port_num = kPort;
  attributes.qp_access_flags =
      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
  return ibv_modify_qp(pair, &attributes,
                       IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

int to_receive(ibv_qp* pair, uint32_t other, const ibv_gid& gid) {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTR;
  attributes.path_mtu = IBV_MTU_1024;
  attributes.dest_qp_num = other;
  attributes.max_dest_rd_atomic = 4;
  attributes.min_rnr_timer = 1;
  attributes.ah_attr.is_global = 1;
  attributes.ah_attr.port_num = kPort;
  attributes.ah_attr.grh.dgid = gid;
  attributes.ah_attr.grh.sgid_index = kGidIndex;
  attributes.ah_attr.grh.hop_limit = 1;
  return ibv_modify_qp(pair, &attributes,
                       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                           IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

// Timeouts are long because an emulated machine may stall.
int to_send(ibv_qp* pair) {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTS;
  attributes.timeout = 18;
  attributes.retry_cnt = 7;
  attributes.rnr_retry = 7;
  attributes.max_rd_atomic = 4;
  return ibv_modify_qp(pair, &attributes,
                       IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                           IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

time_t now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec;
}

}  // namespace

RcPair::RcPair() {
  int devices = 0;
  ibv_device** list = ibv_get_device_list(&devices);
  need_device(list != nullptr && devices > 0, "there is no RDMA device");
  context_ = ibv_open_device(list[0]);
  ibv_free_device_list(list);
  need_device(context_ != nullptr, "cannot open the RDMA device");
  pd_ = ibv_alloc_pd(context_);
  cq_ = ibv_create_cq(context_, 64, nullptr, nullptr, 0);
  need(pd_ != nullptr && cq_ != nullptr, "cannot make a protection domain and completion queue");
  need_device(ibv_query_gid(context_, kPort, kGidIndex, &gid_) == 0,
              "the device has no RoCE address");
  mine_ = make_queue_pair();
  peers_ = make_queue_pair();
  connect();
}

RcPair::~RcPair() {
  ibv_destroy_qp(mine_);
  ibv_destroy_qp(peers_);
  ibv_destroy_cq(cq_);
  ibv_dealloc_pd(pd_);
  ibv_close_device(context_);
}

ibv_qp* RcPair::make_queue_pair() {
  ibv_qp_init_attr attributes{};
  attributes.send_cq = cq_;
  attributes.recv_cq = cq_;
  attributes.qp_type = IBV_QPT_RC;
  attributes.cap = {16, 16, 1, 1, 0};
  ibv_qp* made = ibv_create_qp(pd_, &attributes);
  need(made != nullptr, "cannot make a queue pair");
  return made;
}

void RcPair::connect(ibv_qp* from, const ibv_qp* to) {
  need(to_init(from) == 0 && to_receive(from, to->qp_num, gid_) == 0 && to_send(from) == 0,
       "cannot connect the queue pairs");
}

void RcPair::connect() {
  ibv_qp_attr reset{};
  reset.qp_state = IBV_QPS_RESET;
  need(ibv_modify_qp(mine_, &reset, IBV_QP_STATE) == 0, "cannot reset the queue pair");
  need(ibv_modify_qp(peers_, &reset, IBV_QP_STATE) == 0, "cannot reset the peer's queue pair");
  ibv_wc left;
  while (ibv_poll_cq(cq_, 1, &left) > 0) {
  }
  connect(mine_, peers_);
  connect(peers_, mine_);
}

// Returns the first unsuccessful status. After a failure the remaining work is flushed.
ibv_wc_status RcPair::complete(unsigned completions) {
  ibv_wc_status status = IBV_WC_SUCCESS;
  for (const time_t end = now() + kCompletionSeconds; completions != 0;) {
    ibv_wc done{};
    const int got = ibv_poll_cq(cq_, 1, &done);
    if (got > 0) {
      --completions;
      if (done.status == IBV_WC_SUCCESS) continue;
      status = done.status;
      break;
    }
    if (got == 0 && now() < end) continue;
    puts("BROKEN: no completion came");
    fflush(stdout);
    _exit(probe::kBroken);
  }
  if (status != IBV_WC_SUCCESS) connect();
  return status;
}

ibv_wc_status RcPair::carry_out(ibv_wr_opcode opcode, const Piece& mine, const Piece& peers) {
  ibv_sge here{reinterpret_cast<uintptr_t>(mine.address), static_cast<uint32_t>(mine.length),
               mine.key};
  ibv_sge there{reinterpret_cast<uintptr_t>(peers.address), static_cast<uint32_t>(peers.length),
                peers.key};
  if (opcode == IBV_WR_SEND) {
    ibv_recv_wr receive{};
    receive.sg_list = &there;
    receive.num_sge = 1;
    ibv_recv_wr* refused = nullptr;
    need(ibv_post_recv(peers_, &receive, &refused) == 0, "cannot post a receive");
  }
  ibv_send_wr request{};
  request.sg_list = &here;
  request.num_sge = 1;
  request.opcode = opcode;
  request.send_flags = IBV_SEND_SIGNALED;
  request.wr.rdma.remote_addr = there.addr;
  request.wr.rdma.rkey = peers.key;
  ibv_send_wr* refused = nullptr;
  need(ibv_post_send(mine_, &request, &refused) == 0, "cannot post an operation");
  return complete(opcode == IBV_WR_SEND ? 2 : 1);
}

ibv_wc_status RcPair::write(const Piece& mine, const Piece& peers) {
  return carry_out(IBV_WR_RDMA_WRITE, mine, peers);
}

ibv_wc_status RcPair::read(const Piece& mine, const Piece& peers) {
  return carry_out(IBV_WR_RDMA_READ, mine, peers);
}

ibv_wc_status RcPair::send(const Piece& mine, const Piece& peers) {
  return carry_out(IBV_WR_SEND, mine, peers);
}

PeerBuffer::PeerBuffer(const RcPair& pair, size_t length) : length_(length) {
  bytes_ = static_cast<unsigned char*>(
      mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  need(bytes_ != MAP_FAILED, "no memory for the peer");
  mr_ = ibv_reg_mr(pair.domain(), bytes_, length,
                   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
  need(mr_ != nullptr, "cannot register the peer's memory");
}

PeerBuffer::~PeerBuffer() {
  ibv_dereg_mr(mr_);
  munmap(bytes_, length_);
}

}  // namespace guest
