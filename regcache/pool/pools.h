// All pools of the process and what they share: the chunks and the threads' stocks.
// Constant-initialised; set up with the first pool. Never inside malloc.
//
// The lock is for short work on the lists here: no pool's lock is taken and no foreign code called
// under it. It is held over fork, so that a child finds the lists intact.
#pragma once

#include <pthread.h>

#include "regcache/pool/chunk_table.h"
#include "regcache/pool/pool_list.h"
#include "regcache/pool/stock_store.h"

namespace rdmalloc {

class Pools {
 public:
  explicit constexpr Pools(PoolMemory& memory) : memory_(&memory) {}
  Pools(const Pools&) = delete;
  Pools& operator=(const Pools&) = delete;

  // rdm_pool_create, except for reading the caller's struct.
  int create(const PoolSettings& settings, Pool** out, Message* why);

  // Around fork; registered by whoever owns this (pool_api.cpp).
  void before_fork() { pthread_mutex_lock(&mutex_); }
  void after_fork_in_parent() { pthread_mutex_unlock(&mutex_); }
  void after_fork_in_child();

  PoolMemory& memory() const { return *memory_; }
  const PoolList& list() const { return list_; }
  ChunkTable& chunks() { return chunks_; }
  StockStore& stocks() { return stocks_; }
  int node_here() const { return several_nodes_ ? os::current_node() : 0; }
  bool has_several_nodes() const { return several_nodes_; }
  bool is_fenced() const { return fenced_; }  // see Stock::enter()

 private:
  bool start();
  int create_held(const PoolSettings& settings, Pool** out, Message* why);

  PoolMemory* const memory_;
  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
  bool started_ = false;
  bool fenced_ = true;
  bool several_nodes_ = false;
  PoolList list_;
  ChunkTable chunks_{*memory_, mutex_};
  StockStore stocks_{list_, mutex_};
};

}  // namespace rdmalloc
