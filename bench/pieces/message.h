// A long message between memory that is registered only for it and a file in memory, through an
// io_uring: all at once, or in pieces. A kernel thread copies the bytes, as a network card would,
// while this thread registers.
#pragma once

#include <cstddef>

#include "bench/workloads/ring.h"
#include "rdmalloc/rdmalloc.h"

namespace rdmalloc::bench {

// The memory that messages are sent from or received into.
enum class Pages {
  kSmall,  // 4 KiB, already present: sent from
  kHuge,   // 2 MiB, already present: sent from
  kFresh,  // not yet present: received into; registering faults the pages in
};

// For one thread. Every failure prints a message and ends the program.
class Message {
 public:
  Message(Pages pages, size_t length);
  ~Message();
  Message(const Message&) = delete;
  Message& operator=(const Message&) = delete;

  // Call before each transfer, untimed: makes fresh pages fresh again.
  void prepare();
  // Call around a transfer, untimed: writes new bytes, and checks that all of them arrived.
  void start_proof();
  void end_proof();

  // The ways to transfer it; each returns nanoseconds of wall time.
  double registered_before();                             // registered beforehand, all at once
  double registered_before(size_t piece, unsigned most);  // the same, in pieces
  double whole();                                         // register, transfer, deregister
  double pieces(size_t piece, unsigned most);
  double no_transfer();  // register, deregister

 private:
  Ring::Transfer transfer(char* address, size_t length, const rdm_mr& mr) const;
  void transfer_whole(const rdm_mr& mr);
  void transfer_pieces(size_t piece, unsigned most);
  // The same with one key that covers all of it.
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
  char* memory_ = nullptr;   // source or target of the transfers
  char* arrived_ = nullptr;  // the file's bytes
  unsigned seed_ = 0;
};

}  // namespace rdmalloc::bench
