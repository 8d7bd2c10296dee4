// Two reliable connected queue pairs in one process, connected through the first RDMA device: the
// program's end and its peer. Operations by lkey at the program's end read or write memory as the
// device sees it, not as the CPU does; the tests compare the two.
//
// Not thread-safe. It does not work in a child of fork: open another one there. If setup fails, the
// program ends as skipped, with the reason; if a completion does not come, it ends as broken.
#pragma once

#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdint.h>

namespace guest {

// The memory that an operation reads or writes.
struct Piece {
  void* address = nullptr;
  size_t length = 0;
  uint32_t key = 0;  // lkey for the program's own memory, rkey for the peer's
};

class RcPair {
 public:
  RcPair();
  ~RcPair();
  RcPair(const RcPair&) = delete;
  RcPair& operator=(const RcPair&) = delete;

  ibv_pd* domain() const { return pd_; }

  // Each waits for its completion. After a status other than IBV_WC_SUCCESS the pair is
  // reconnected, so that the next operation works. `mine` gives the length.
  ibv_wc_status write(const Piece& mine, const Piece& peers);
  ibv_wc_status read(const Piece& mine, const Piece& peers);
  // Into the peer's memory, by its lkey.
  ibv_wc_status send(const Piece& mine, const Piece& peers);

 private:
  ibv_qp* make_queue_pair();
  void connect();
  void connect(ibv_qp* from, const ibv_qp* to);
  ibv_wc_status carry_out(ibv_wr_opcode opcode, const Piece& mine, const Piece& peers);
  ibv_wc_status complete(unsigned completions);

  ibv_context* context_ = nullptr;
  ibv_pd* pd_ = nullptr;
  ibv_cq* cq_ = nullptr;
  ibv_qp* mine_ = nullptr;
  ibv_qp* peers_ = nullptr;
  ibv_gid gid_{};
};

// The peer's side: a buffer outside malloc, registered separately with all rights.
class PeerBuffer {
 public:
  PeerBuffer(const RcPair& pair, size_t length);
  ~PeerBuffer();
  PeerBuffer(const PeerBuffer&) = delete;
  PeerBuffer& operator=(const PeerBuffer&) = delete;

  unsigned char* bytes() const { return bytes_; }
  Piece local(size_t length) const { return {bytes_, length, mr_->lkey}; }
  Piece remote(size_t length) const { return {bytes_, length, mr_->rkey}; }

 private:
  unsigned char* bytes_;
  size_t length_;
  ibv_mr* mr_;
};

}  // namespace guest
