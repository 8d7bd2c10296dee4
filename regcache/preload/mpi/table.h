// A map for the few things that the shim must remember: which addresses the MPI library allocated
// itself, and which memory of ours a window has.
//
// Any thread; the lock is held for a few instructions, none of which calls out. Not for a child of
// fork, in which MPI must not be called.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace rdmalloc::mpi {

class Table {
 public:
  // `others`: counts the keys, too, along with what else its owner counts there.
  constexpr explicit Table(std::atomic<size_t>* others = nullptr) : others_(others) {}
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;

  // Whoever was given a key sees it counted, so that most callers need no lock.
  bool is_empty() const { return count_.load(std::memory_order_acquire) == 0; }

  // Replaces what the key had. False: there is no memory.
  [[nodiscard]] bool put(uintptr_t key, void* value);
  // Takes the key out, if it is there.
  bool take(uintptr_t key, void** value);

 private:
  struct Node {
    uintptr_t key;
    void* value;
    Node* next;
  };
  static constexpr size_t kBuckets = 1024;
  void count(size_t change);
  // The link that leads to the key, or to the end of its chain.
  Node** find(uintptr_t key);

  pthread_mutex_t lock_ = PTHREAD_MUTEX_INITIALIZER;
  std::atomic<size_t> count_{0};
  std::atomic<size_t>* others_;
  Node* buckets_[kBuckets] = {};
};

}  // namespace rdmalloc::mpi
