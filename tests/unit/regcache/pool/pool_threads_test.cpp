// Pools with threads, NUMA nodes and forks, over a fake device and a heap over fake system calls.
#include <pthread.h>

#include <thread>
#include <vector>

#include "tests/support/pool_buffers.h"
#include "tests/support/steps.h"

namespace rdmalloc {
namespace {

using fake::get_all;
using fake::PoolFixture;
using fake::pools_are_clean;
using fake::put_all;
using fake::require_apart;

TEST_CASE("a thread that ends gives back what it kept") {
  PoolFixture f;
  f.boot();
  f.settings.reserve = 64;
  f.settings.most = 64;
  Pool* pool = f.create();
  std::thread([&] { REQUIRE(Pool::put(pool, f.get(pool).address) == RDM_OK); }).join();
  const int barriers = fake::process_barrier.calls;
  const std::vector<rdm_buffer> all = get_all(f, pool);
  REQUIRE(all.size() == 64);
  // Only the get that failed searched others' stocks.
  REQUIRE(fake::process_barrier.calls == barriers + 1);
  put_all(pool, all);
}

TEST_CASE("what a living thread keeps is still available, with membarrier and without") {
  PoolFixture f;
  fake::process_barrier.is_there = GENERATE(true, false);
  f.boot();
  f.settings.reserve = 512;
  f.settings.most = 512;
  Pool* pool = f.create();
  test::Steps steps;
  std::thread keeper([&] {
    std::vector<rdm_buffer> held;
    for (int i = 0; i < 40; ++i) held.push_back(f.get(pool));
    put_all(pool, held);
    steps.advance();
    steps.wait_for(2);
    // Its stock is gone, and it continues.
    rdm_buffer none{};
    REQUIRE(Pool::get(pool, &none) == RDM_OUT_OF_BUDGET);
    steps.advance();
    steps.wait_for(4);
    REQUIRE(Pool::put(pool, f.get(pool).address) == RDM_OK);
  });
  steps.wait_for(1);
  const std::vector<rdm_buffer> all = get_all(f, pool);
  REQUIRE(all.size() == 512);
  require_apart(all);
  steps.advance();
  steps.wait_for(3);
  put_all(pool, all);
  steps.advance();
  keeper.join();
  REQUIRE(pool->validate());
  REQUIRE(pool->close() == RDM_OK);
}

TEST_CASE("where the kernel refuses a barrier by now, what another thread keeps is left alone") {
  PoolFixture f;
  f.boot();
  f.settings.reserve = 512;
  f.settings.most = 512;
  Pool* pool = f.create();
  test::Steps steps;
  std::thread keeper([&] {
    REQUIRE(Pool::put(pool, f.get(pool).address) == RDM_OK);
    steps.advance();
    steps.wait_for(2);
    REQUIRE(Pool::put(pool, f.get(pool).address) == RDM_OK);
  });
  steps.wait_for(1);
  fake::process_barrier.works = false;
  std::vector<rdm_buffer> all = get_all(f, pool);
  REQUIRE(all.size() < 512);
  require_apart(all);
  steps.advance();
  keeper.join();
  // It returned them when it ended.
  const std::vector<rdm_buffer> rest = get_all(f, pool);
  all.insert(all.end(), rest.begin(), rest.end());
  REQUIRE(all.size() == 512);
  require_apart(all);
  put_all(pool, all);
  REQUIRE(pool->validate());
  REQUIRE(pool->close() == RDM_OK);
}

TEST_CASE("a buffer is of the node of the thread that gets it, and goes home when it is put") {
  PoolFixture f;
  fake::machine().nodes = 2;
  f.boot();
  f.settings.grow_by = 64;
  fake::set_node(0);
  Pool* pool = f.create();
  const auto node_of = [&](const rdm_buffer& buffer) {
    return f.heap->regions().find(buffer.address)->node;
  };
  std::vector<rdm_buffer> here;
  for (int i = 0; i < 64; ++i) here.push_back(f.get(pool));
  std::vector<rdm_buffer> there;
  std::thread([&] {
    fake::set_node(1);
    for (int i = 0; i < 64; ++i) there.push_back(f.get(pool));
  }).join();
  for (const rdm_buffer& buffer : here) REQUIRE(node_of(buffer) == 0);
  for (const rdm_buffer& buffer : there) REQUIRE(node_of(buffer) == 1);
  // A thread on node 1 puts buffers of node 0 and ends: they are node 0's again.
  std::thread([&] {
    fake::set_node(1);
    put_all(pool, here);
  }).join();
  for (int i = 0; i < 64; ++i) REQUIRE(node_of(f.get(pool)) == 0);
  REQUIRE(pool->validate());
}

TEST_CASE("where all memory lies on one node, threads of others do not make a pool grow for ever") {
  PoolFixture f({"NUMA=off"});
  fake::machine().nodes = 2;
  f.boot();
  f.settings.reserve = 1024;
  Pool* pool = f.create();
  const size_t held = f.counts(pool).held;
  std::thread([&] {
    fake::set_node(1);
    for (int i = 0; i < 200; ++i) {
      std::vector<rdm_buffer> some;
      for (int k = 0; k < 100; ++k) some.push_back(f.get(pool));
      put_all(pool, some);
    }
  }).join();
  REQUIRE(f.counts(pool).held <= held * 2);
  REQUIRE(pool->validate());
}

TEST_CASE("in a child of fork a pool keeps its memory, owns no key and can be closed") {
  PoolFixture f;
  f.boot();
  f.open_domain();
  Pool* pool = f.create();
  const rdm_buffer buffer = f.get(pool);
  const rdm_buffer second = f.get(pool);
  memset(buffer.address, 7, buffer.length);
  f.pools->before_fork();
  f.pools->after_fork_in_child();
  rdm_buffer none{};
  rdm_mr mr{};
  REQUIRE(Pool::get(pool, &none) == RDM_NOT_REGISTERED);
  REQUIRE(f.says("parent"));
  REQUIRE(none.address == nullptr);
  REQUIRE(Pool::key(pool, buffer.address, &mr) == RDM_NOT_REGISTERED);
  REQUIRE(static_cast<char*>(buffer.address)[100] == 7);
  REQUIRE(Pool::put(pool, buffer.address) == RDM_OK);
  REQUIRE(Pool::get(pool, &none) == RDM_NOT_REGISTERED);
  // One is still out; that concerns only the parent.
  REQUIRE(pool->close() == RDM_OK);
  REQUIRE(Pool::put(pool, second.address) == RDM_INVALID);
  REQUIRE(pools_are_clean(f));
  f.settings.domain = nullptr;
  Pool* own = f.create();
  REQUIRE(Pool::put(own, f.get(own).address) == RDM_OK);
  REQUIRE(own->close() == RDM_OK);
}

// Set by the test below, for a destructor that pthreads calls.
Pool* pool_of_late_thread = nullptr;
int late_calls = 0;

TEST_CASE("a thread that gets and puts while it ends, after its stock was taken, loses nothing") {
  PoolFixture f;
  f.boot();
  f.settings.most = 64;
  f.settings.reserve = 64;
  pool_of_late_thread = f.create();
  late_calls = 0;
  // Created after the pools' own key, so called after its destructor.
  pthread_key_t key = 0;
  REQUIRE(pthread_key_create(&key, [](void*) {
            rdm_buffer buffer{};
            if (Pool::get(pool_of_late_thread, &buffer) == RDM_OK &&
                Pool::put(pool_of_late_thread, buffer.address) == RDM_OK) {
              ++late_calls;
            }
          }) == 0);
  std::thread([&] {
    REQUIRE(Pool::put(pool_of_late_thread, f.get(pool_of_late_thread).address) == RDM_OK);
    REQUIRE(pthread_setspecific(key, &f) == 0);
  }).join();
  REQUIRE(late_calls == 1);
  REQUIRE(pthread_key_delete(key) == 0);
  const int barriers = fake::process_barrier.calls;
  const std::vector<rdm_buffer> all = get_all(f, pool_of_late_thread);
  REQUIRE(all.size() == 64);
  REQUIRE(fake::process_barrier.calls == barriers + 1);
  put_all(pool_of_late_thread, all);
  REQUIRE(pool_of_late_thread->close() == RDM_OK);
}

}  // namespace
}  // namespace rdmalloc
