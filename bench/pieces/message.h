// A long message between memory that is registered for nothing else and a file in memory, through
// an io_uring: in one go, or in pieces. A thread of the kernel's copies the bytes, as a card would,
// while this one registers.
#pragma once

#include <cstddef>

#include "bench/workloads/ring.h"
#include "rdmalloc/rdmalloc.h"

namespace rdmalloc::bench {

// The memory that messages are sent from or received into.
enum class Pages {
  kSmall,  // 4 KiB, there already: sent from
  kHuge,   // 2 MiB, there already: sent from
  kFresh,  // none yet: received into; registering faults them in
};

// For one thread. Every failure ends the program with a sentence.
class Message {
 public:
  Message(Pages pages, size_t length);
  ~Message();
  Message(const Message&) = delete;
  Message& operator=(const Message&) = delete;

  // Before each transfer, not to be timed: fresh pages become fresh again.
  void prepare();
  // Around a transfer, not to be timed: other bytes than ever before, and that all of them arrived.
  void start_proof();
  void end_proof();

  // The ways to transfer it, in nanoseconds of wall time.
  double registered_before();                             // registered once, in one go
  double registered_before(size_t piece, unsigned most);  // the same, in pieces
  double whole();                                         // register, transfer, deregister
  double pieces(size_t piece, unsigned most);
  double no_transfer();  // register, deregister

 private:
  Ring::Transfer transfer(char* address, size_t length, const rdm_mr& mr) const;
  void transfer_whole(const rdm_mr& mr);
  void transfer_pieces(size_t piece, unsigned most);
  // The same with a key that all of it has.
  void transfer_parts(const rdm_mr& mr, size_t piece, unsigned most);

  char* source() const { return pages_ == Pages::kFresh ? arrived_ : memory_; }
  char* target() const { return pages_ == Pages::kFresh ? memory_ : arrived_; }
  rdm_mr get();
  void put(const rdm_mr& mr);
  void fill(char* bytes, unsigned seed) const;

  const Pages pages_;
  const size_t length_;
  Ring ring_;
  rdm_domain* domain_ = nullptr;
  int file_ = -1;
  char* memory_ = nullptr;   // what the transfers are from or to
  char* arrived_ = nullptr;  // the file
  unsigned seed_ = 0;
};

}  // namespace rdmalloc::bench
