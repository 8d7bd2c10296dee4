// Two reliable connected queue pairs of one process, connected to each other through the first RDMA
// device there is: the program's end, and its peer's. What the program's end does by lkey reads or
// writes the memory as the device sees it, not as the CPU does; that is what the tests compare.
//
// Not thread-safe. In a child of fork it is dead: open another one there. A failure to set it up
// ends the program as skipped, with the reason; a completion that does not come ends it as broken.
#pragma once

#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdint.h>

namespace guest {

// What an operation reads from or writes to.
struct Piece {
  void* address = nullptr;
  size_t length = 0;
  uint32_t key = 0;  // lkey for one's own memory, rkey for the peer's
};

class RcPair {
 public:
  RcPair();
  ~RcPair();
  RcPair(const RcPair&) = delete;
  RcPair& operator=(const RcPair&) = delete;

  ibv_pd* domain() const { return pd_; }

  // Each waits for its completion. After a status that is not IBV_WC_SUCCESS the pair is connected
  // anew, so that the next one works. Lengths are those of `mine`.
  ibv_wc_status write(const Piece& mine, const Piece& peers);
  ibv_wc_status read(const Piece& mine, const Piece& peers);
  // Into memory of the peer's, by its lkey.
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

// A buffer outside of any malloc, registered by itself with all rights: the peer's side.
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
